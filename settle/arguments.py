import re

from settle.exit_codes import CommandFailed, Exit
from settlement.core.model.request import ACCOUNT, KEY

_INTERNAL_ACCOUNT = re.compile(r"(fees|losses):[A-Z0-9]{3,12}")
_WITHOUT_STATEMENT = ("escrow:", "external:", "transit:", "suspense:")
"""Prefixes of internal accounts. Only the other account's statement has their entries."""


def check_key(key: str) -> str:
    if not KEY.fullmatch(key):
        raise CommandFailed(Exit.USAGE, f"key: must match ^{KEY.pattern}$")
    return key


def check_customer(account: str) -> str:
    if not ACCOUNT.fullmatch(account):
        raise CommandFailed(Exit.USAGE, f"account: must match ^{ACCOUNT.pattern}$")
    return account


def check_account(account: str) -> str:
    """Return the id. Raises CommandFailed for a malformed id, or for an account without a statement."""
    if account.startswith(_WITHOUT_STATEMENT):
        raise CommandFailed(
            Exit.USAGE,
            "account: escrow is shown by `settle status KEY`, external, transit and suspense by"
            " `settle reconcile`",
        )
    if not (ACCOUNT.fullmatch(account) or _INTERNAL_ACCOUNT.fullmatch(account)):
        raise CommandFailed(
            Exit.USAGE, f"account: must match ^{ACCOUNT.pattern}$, or be fees:CURRENCY or losses:CURRENCY"
        )
    return account
