"""Debits of a frozen or closed account, by the times of the table's stream.

A writer of the table can remove `frozen_at`, let a payment be held, and restore `frozen_at`. The rows then
agree, but the stream's times reveal it. Only these times are of one clock.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from settlement.accounts.order import OrderKind
from settlement.core.model.status import Step
from settlement.proof.payout_rows import GIVE_BACK, RESERVE, RETURN
from settlement.proof.sealed_spool import Told

APART_SECONDS = 10
"""Tolerance in seconds: the stream's times are approximate."""

_STOPPED_BY: Mapping[str, Collection[str]] = {
    Step.HOLD: (OrderKind.FREEZE, OrderKind.CLOSE),
    OrderKind.WITHDRAW: (OrderKind.FREEZE,),
    **dict.fromkeys((RESERVE, RETURN, GIVE_BACK), (OrderKind.FREEZE, OrderKind.CLOSE)),
}
"""The orders that stop each step. Returned money then goes to suspense."""


class Freezes:
    """Times of the orders that freeze, unfreeze or close. Other orders take no memory."""

    def __init__(self) -> None:
        self._times: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        self._undated: set[str] = set()

    def note(self, told: Iterable[Mapping[str, Any]]) -> None:
        """Note these lines' orders. A forged line may lack any attribute."""
        for line in told:
            row = line.get("new", {}).get("row", {})
            if row.get("order") not in _ORDERS:
                continue
            if line["event"] != "INSERT":  # a copy from the table lacks the commit's time
                self._undated.add(str(row.get("account")))
            self._times[str(row.get("account")), row["order"]].setdefault(row["pk"], int(line["at"]))

    def broken_by(self, told: list[Told], until: datetime) -> str | None:
        """The order that should have stopped an entry.

        An entry at `until` or later is not judged: the freeze may have ended.
        """
        account = told[0].pk.removeprefix("ENTRIES#").partition("#")[0]
        step = told[0].sk.partition("#")[2].partition(":")[2]
        puts = [int(one.at) for one in told if one.event == "INSERT"]
        if step not in _STOPPED_BY or not puts or account in self._undated:
            return None
        at = min(puts)
        if at >= until.timestamp():
            return None
        for order in _STOPPED_BY[step]:
            begun = sum(one <= at - APART_SECONDS for one in self._of(account, order))
            ended = sum(one <= at + APART_SECONDS for one in self._of(account, OrderKind.UNFREEZE))
            if begun > (ended if order == OrderKind.FREEZE else 0):
                return order
        return None

    def _of(self, account: str, order: str) -> Collection[int]:
        return self._times.get((account, order), {}).values()


_ORDERS = (OrderKind.FREEZE, OrderKind.UNFREEZE, OrderKind.CLOSE)
