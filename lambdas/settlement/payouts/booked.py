"""Lists the payouts' debits and returns, as orders to compare with the bank's lines."""

from collections.abc import Callable, Iterator
from itertools import chain, islice

from settlement.bank.matching import Order
from settlement.bank.statement import Side
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import accounts
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.stored import MalformedRow
from settlement.core.store import batch
from settlement.core.store.dynamodb import Store
from settlement.payouts.moves import Move
from settlement.payouts.payout import State, Status

PAID = f"payout-{Move.PAY}"
_DAY = len("2026-11-29")


def orders(
    store: Store, config: StageConfig, unreadable: Callable[[str], None]
) -> Iterator[tuple[Order, str | None]]:
    """Yield the debits and returns of all payouts, each with the identity of its line, if on record.

    Each payout costs the reads of an entry and a row. `unreadable` is called for unreadable rows.
    """

    def put_aside(row: Row, reason: str) -> None:
        unreadable(f"{row['pk']}: {reason.removeprefix(row['pk'] + ': ')}")

    partitions = chain(*(keys.entry_partitions(accounts.external(code)) for code in config.currencies))
    entries = chain(*(store.entries(one, "0", keys.END_OF_TIME, unreadable=put_aside) for one in partitions))
    wanted = (keys.payout(_key(entry)) for entry in entries if entry.get("step") == PAID)
    while some := list(islice(wanted, batch.BATCH_MAX)):
        for row in batch.read(store, some, put_aside):
            try:
                yield from _moved(State.from_row(row))
            except MalformedRow as malformed:
                put_aside(row, str(malformed))


def _key(entry: Row) -> str:
    return str(entry["sk"].rpartition(":")[0].rpartition("#")[2])


def _moved(state: State) -> Iterator[tuple[Order, str | None]]:
    yield _order(state, Side.OUT, state.paid_at), state.debit_line
    if state.status is Status.RETURNED:
        yield _order(state, Side.IN, state.ended_at), state.return_line


def _order(state: State, side: Side, at: str | None) -> Order:
    if at is None:
        raise MalformedRow(f"PAYOUT#{state.key}: has money at the bank, but no time of it")
    payout = state.payout
    name = payout.name_of(side)
    return Order(name, payout.account, payout.currency, payout.amount, side, payout.reference, at[:_DAY])
