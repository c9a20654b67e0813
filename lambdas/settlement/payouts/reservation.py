"""Reserves a payout: its money leaves the customer's account, and waits in transit."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, Write
from settlement.core.model import money
from settlement.core.model.errors import DestinationRefused, IdempotencyConflict, InvalidRequest
from settlement.core.model.request import ACCOUNT, KEY, STARTED_BY, unknown_fields
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.stored import MalformedRow
from settlement.core.store.dynamodb import Store
from settlement.payouts import writes
from settlement.payouts.destination import Destination
from settlement.payouts.payout import DESTINATION, Payout, State
from settlement.payouts.writes import Limits

FIELDS = ("key", "account", "amount", "currency", "destination")
_PATTERNS: Mapping[str, re.Pattern[str]] = {"key": KEY, "account": ACCOUNT, "destination": DESTINATION}

IsProven = Callable[[Row], bool]
"""Whether a row's signature is valid."""


def parse_payout(raw: object, config: StageConfig) -> Payout:
    """Parse a payout with a decimal `amount`. Raises InvalidRequest, naming each wrong field."""
    if not isinstance(raw, dict):
        raise InvalidRequest(f"payout: must be a JSON object with {', '.join(FIELDS)}")
    content: dict[str, Any] = {name: value for name, value in raw.items() if name != STARTED_BY}
    problems = [*unknown_fields(content.keys(), FIELDS)]
    problems += [f"{name}: missing" for name in FIELDS if name not in content]
    for name, pattern in _PATTERNS.items():
        if name in content and not (isinstance(content[name], str) and pattern.fullmatch(content[name])):
            problems.append(f"{name}: must be a string that matches ^{pattern.pattern}$")
    currency = content.get("currency")
    exponent = config.currencies.get(currency) if isinstance(currency, str) else None
    if exponent is None and "currency" in content:
        problems.append(f"currency: must be one of {', '.join(sorted(config.currencies))}")
    if exponent is not None and "amount" in content:
        try:
            content["amount"] = money.parse(content["amount"], exponent)
        except ValueError as expected:
            problems.append(f"amount: {expected}")
        else:
            problems += [] if content["amount"] > 0 else ["amount: must be more than 0"]
    if problems:
        raise InvalidRequest("; ".join(sorted(problems)))
    return Payout(**content)


class Reservations:
    def __init__(
        self, store: Store, limits: Limits, is_proven: IsProven, now: Callable[[], datetime]
    ) -> None:
        self.store, self.limits, self.is_proven, self.now = store, limits, is_proven, now

    def reserve(self, payout: Payout, beside: Sequence[Write] = ()) -> tuple[State, bool]:
        """Reserve a payout once. Return its state, and whether it was there before.

        `beside`: another room's writes in the same transaction. Raises their refusals, and
        IdempotencyConflict, DestinationRefused, PayoutRefused, InsufficientFunds and other refusals of the
        account, MalformedRow.
        """
        now = self.now()
        try:
            destination = self._payable(payout, now)
        except (DestinationRefused, MalformedRow):
            if found := self._earlier(payout):  # what was reserved stays a replay
                return found, True
            raise
        try:
            self.store.transact((*writes.reserve(payout, destination, self.limits, now), *beside))
        except AlreadyApplied as earlier:
            return State.from_row(earlier.found), True
        return writes.reserved(payout, destination, now), False

    def _payable(self, payout: Payout, now: datetime) -> Destination:
        name = payout.destination
        rows = [self.store.read(key(name)) for key in (keys.destination, keys.destination_confirmed)]
        if rows[0] is None:
            raise DestinationRefused("destination: there is none with this id")
        if not all(self.is_proven(row) for row in rows if row):
            raise MalformedRow(f"DESTINATION#{name}: has no valid signature")
        found = Destination.from_rows(rows[0], rows[1])
        if refusal := found.refusal(payout, now):
            raise refusal
        return found

    def _earlier(self, payout: Payout) -> State | None:
        row = self.store.read(keys.payout(payout.key))
        if row is None:
            return None
        state = State.from_row(row)
        if state.payout.request_hash != payout.request_hash:
            raise IdempotencyConflict.of_key(payout.key)
        return state
