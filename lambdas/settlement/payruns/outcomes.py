"""Outcomes of a run's lines, from the payments' own rows. A run keeps no copy."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import IdempotencyConflict, InvalidRequest
from settlement.core.model.request import parse_request
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.model.stored import MalformedRow
from settlement.core.policy import steps
from settlement.core.store import batch
from settlement.core.store.dynamodb import Store
from settlement.payouts.payout import State
from settlement.payouts.reservation import parse_payout
from settlement.payruns.file import Header, Kind, Line, key_of, request_of

REFUSED, NOT_BEGUN, UNREADABLE = "REFUSED", "NOT BEGUN", "UNREADABLE"
SUSPENSE = "IN SUSPENSE"
"""A payout that came back, and that the account did not take: two persons give it back."""

FINAL = frozenset({REFUSED, "SETTLED", "REJECTED", "COMPENSATED", "PAID", "CONFIRMED", "RETURNED"})
"""Outcomes that end a line. A PAID payout may still come back."""

_TOGETHER = batch.BATCH_MAX // 2


@dataclass(frozen=True)
class Outcome:
    """A line's `status`: its payment's or payout's, or REFUSED or NOT BEGUN. `why` explains failures."""

    line: Line
    status: str
    why: str = ""

    @property
    def is_final(self) -> bool:
        return self.status in FINAL


def of_lines(
    store: Store, config: StageConfig, run: str, header: Header, lines: Sequence[Line]
) -> Iterator[Outcome]:
    """Yield each line's outcome, in order. Raises StoreUnavailable."""
    for first in range(0, len(lines), _TOGETHER):
        some = lines[first : first + _TOGETHER]
        wanted = [key(run, header, line) for line in some for key in (_payment, _refusal)]
        unreadable = list[Row]()
        rows = batch.read(store, wanted, lambda place, _: unreadable.append(place))  # noqa: B023
        found = {(row["pk"], row["sk"]): row for row in rows}
        for line in some:
            if _payment(run, header, line) in unreadable or _refusal(run, header, line) in unreadable:
                yield Outcome(line, UNREADABLE)
            else:
                yield _outcome(found, config, run, header, line)


def _payment(run: str, header: Header, line: Line) -> Row:
    key = key_of(run, line.number)
    return keys.payout(key) if header.kind is Kind.PAYOUTS else keys.settlement(key)


def _refusal(run: str, _: Header, line: Line) -> Row:
    return keys.payrun_line(run, line.number)


def _outcome(
    found: Mapping[tuple[str, str], Row], config: StageConfig, run: str, header: Header, line: Line
) -> Outcome:
    place, beside = _payment(run, header, line), _refusal(run, header, line)
    row = found.get((place["pk"], place["sk"]))
    refusal = found.get((beside["pk"], beside["sk"]), {})
    try:
        if row is not None and (told := _told(row, config, request_of(run, header, line), header.kind)):
            return Outcome(line, *told)
    except (MalformedRow, InvalidRequest):  # the latter: the stage has lost the line's currency
        return Outcome(line, UNREADABLE)
    if "refused" in refusal:
        return Outcome(line, REFUSED, f"{refusal['refused']}: {refusal.get('why')}")
    if row is not None:
        return Outcome(line, REFUSED, str(IdempotencyConflict.of_key(key_of(run, line.number))))
    return Outcome(line, NOT_BEGUN)


def _told(row: Row, config: StageConfig, request: dict[str, Any], kind: Kind) -> tuple[str, str] | None:
    """Status and failure of a line's payment; None if its key has another request. Raises MalformedRow."""
    try:
        if kind is Kind.PAYOUTS:
            payout = State.from_row(row)
            is_own = payout.payout.request_hash == parse_payout(request, config).request_hash
            status = SUSPENSE if payout.in_suspense else payout.status.value
            return (status, payout.detail or "") if is_own else None
        state = SettlementState.from_row(row)
        steps.verify_same_request(parse_request(request, config), state)
        return state.status.value, str((state.failure or {}).get("error", ""))
    except IdempotencyConflict:
        return None
