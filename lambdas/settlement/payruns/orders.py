"""Parsers of orders on runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from settlement.core.model import money
from settlement.core.model.errors import InvalidRequest
from settlement.core.model.orders import fields_of, one_line
from settlement.core.model.request import ACCOUNT
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.timestamps import timestamp
from settlement.http.caller import Caller
from settlement.payruns.file import DIGEST, LINES_MAX, NAME, RUN, Kind
from settlement.payruns.run import Proposal

_FIELDS = ("digest", "name", "kind", "payer", "lines", "sums", "reason", "parent")


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Runs over a sum (minor units by currency), or over a number of lines, need a second approval."""

    over: Mapping[str, int]
    lines_over: int

    def needed(self, lines: int, sums: Mapping[str, int]) -> int:
        is_large = lines > self.lines_over
        is_large = is_large or any(sum_ > self.over.get(code, sum_) for code, sum_ in sums.items())
        return 2 if is_large else 1


def parse_proposal(raw: object, rules: Rules, config: StageConfig, caller: Caller, now: datetime) -> Proposal:
    """Raises InvalidRequest."""
    content = fields_of(raw, _FIELDS, optional=("parent",))
    patterns = {"digest": DIGEST, "name": NAME, "payer": ACCOUNT, "parent": RUN}
    for name, pattern in patterns.items():
        if name in content and not (isinstance(content[name], str) and pattern.fullmatch(content[name])):
            raise InvalidRequest(f"{name}: must match ^{pattern.pattern}$")
    if content["kind"] not in list(Kind):
        raise InvalidRequest(f"kind: must be one of {', '.join(Kind)}")
    lines = content["lines"]
    if type(lines) is not int or not 1 <= lines <= LINES_MAX:
        raise InvalidRequest(f"lines: must be from 1 to {LINES_MAX}")
    sums = _sums(content["sums"], config)
    return Proposal(
        digest=content["digest"],
        name=content["name"],
        kind=Kind(content["kind"]),
        payer=content["payer"],
        parent=content.get("parent"),
        lines=lines,
        sums=sums,
        needed=rules.needed(lines, sums),
        reason=one_line(content["reason"], "reason"),
        by=caller.by,
        posted_at=timestamp(now),
    )


def _sums(raw: object, config: StageConfig) -> dict[str, int]:
    if not (isinstance(raw, dict) and raw and raw.keys() <= config.currencies.keys()):
        raise InvalidRequest(f"sums: must be by currency, of {', '.join(sorted(config.currencies))}")
    found: dict[str, int] = {}
    for code, text in raw.items():
        try:
            found[code] = money.parse(text, config.currencies[code])
        except ValueError as expected:
            raise InvalidRequest(f"sums: {code} {expected}") from None
    return found


def parse_shown(raw: object) -> tuple[str, str]:
    """The run and the digest of its file, as the person was shown them. Raises InvalidRequest."""
    content = fields_of(raw, ("run", "digest"))
    run, digest = content["run"], content["digest"]
    if not (isinstance(run, str) and RUN.fullmatch(run)):
        raise InvalidRequest(f"run: must match ^{RUN.pattern}$")
    if not (isinstance(digest, str) and DIGEST.fullmatch(digest) and digest.startswith(run)):
        raise InvalidRequest("digest: must be that of the run's file, as it was shown")
    return run, digest
