import re

from settlement.core.model.accounts import MERCHANT, is_merchant
from settlement.core.model.errors import InvalidRequest
from settlement.core.model.orders import fields_of
from settlement.core.model.request import ACCOUNT

SWEEP = "sweep"
"""Order to sweep a merchant. It moves no money between accounts."""

_SINCE = re.compile(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2})?", re.ASCII)

_COME = re.compile(r"(\d|1[0-5])#(\d{4}-\d{2}-\d{2}T\d{2}:\d{2})", re.ASCII)

_ANY_TIME = "0"
"""Sorts before every timestamp."""


def parse_sweep(raw: object) -> tuple[str, str, tuple[int, str] | None]:
    """Return the merchant, the first minute, and the (partition number, minute) to continue at.

    Raises InvalidRequest.
    """
    content = fields_of(raw, ("account", "since", "from"), optional=("since", "from"))
    account, since, come = (content.get(name, "") for name in ("account", "since", "from"))
    problems = []
    if not (isinstance(account, str) and ACCOUNT.fullmatch(account) and is_merchant(account)):
        problems.append(f"account: must be a merchant's, {MERCHANT}NAME, and match ^{ACCOUNT.pattern}$")
    if since != "" and not (isinstance(since, str) and _SINCE.fullmatch(since)):
        problems.append("since: must be a day or a minute such as 2026-11-22T06:04")
    found = _COME.fullmatch(come) if isinstance(come, str) else None
    if come != "" and not found:
        problems.append("from: must be that of an answer, or be left out")
    if problems:
        raise InvalidRequest("; ".join(problems))
    return account, since or _ANY_TIME, (int(found[1]), found[2]) if found else None
