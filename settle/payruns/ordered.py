"""People's orders on pay runs, as `settle audit` shows them."""

from collections.abc import Iterator, Sequence

from settle.settlements import aside, index
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import money
from settlement.core.model.stored import MalformedRow, exponent_of, sound
from settlement.proof import payrun_rows


def lines(stack: Stack, fields: Sequence[str], first: str, last: str) -> Iterator[aside.Line]:
    """Yield the orders from time `first` to before `last`, run by run. Each has all `fields`."""
    runs = dict.fromkeys(
        keys.subject(key)[1]
        for partition in (keys.PAYRUNS_RUNNING, keys.PAYRUNS, keys.PAYRUNS_RUNNING)
        for key in index.between(stack, partition, "0", last)
    )
    for run in runs:
        yield from _of_run(stack, fields, run, first, last)


def _of_run(stack: Stack, fields: Sequence[str], run: str, first: str, last: str) -> Iterator[aside.Line]:
    place, spoilt = keys.payrun_proposed(run), list[aside.Line]()

    def put_aside(row: Row, reason: str) -> None:
        spoilt.append(dict.fromkeys(fields, "") | aside.line((), row, reason))

    rows = {row["sk"]: row for row in stack.store.entries(place["pk"], "A", "Q", unreadable=put_aside)}
    yield from spoilt
    proposal = rows.get(place["sk"], {})
    for row in rows.values():
        try:
            payrun_rows.decision(sound(row))
            if first <= row["posted_at"] < last:
                yield dict.fromkeys(fields, "") | _line(stack, row, proposal)
        except MalformedRow as malformed:  # of any time, as its time may be wrong
            yield dict.fromkeys(fields, "") | aside.line((), row, str(malformed), **_texts(row))


def _texts(row: Row) -> dict[str, str]:
    return aside.texts(row, "reason", "by", "user_id", "request_id", "source_ip")


def _line(stack: Stack, row: Row, proposal: Row) -> dict[str, str]:
    """Describe an order. Only a proposal in a single currency has an amount. Raises MalformedRow."""
    is_proposal = row["sk"] == keys.payrun_proposed("")["sk"]
    verb = "propose" if is_proposal else row["order"] if row["sk"].startswith("ORDERED#") else "approve"
    told = {
        "when": row["posted_at"],
        "order": f"{verb}-payrun",
        "key": keys.subject(row)[1],
        **_texts(row),
        **({"account": payer} if isinstance(payer := proposal.get("payer"), str) else {}),
    }
    if is_proposal and len(row["sums"]) == 1:
        ((code, sum_),) = row["sums"].items()
        told |= {"amount": money.render(sum_, exponent_of(row["pk"], code, stack.config)), "currency": code}
    return told
