import json
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any

from handlers import _dependencies
from handlers.core import _workers
from settlement.aws import queues
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import Refusal, SettlementError
from settlement.core.telemetry import count, logger, observed
from settlement.merchants import sweeper, sweeps
from settlement.merchants.sweep import Span
from settlement.merchants.sweeps import Release

RESERVED_MS = 15_000
"""Minimum time to sweep a busy merchant's span."""

Swept = tuple[dict[Release, str], Sequence[Span]]


@observed("sweep")
def handler(event: dict[str, Any], context: Any) -> dict[str, list[dict[str, str]]]:
    """Sweep each minute in which a message reports a release. The amounts come from the table.

    Return the messages to receive again, because their sweep was refused, unanswered or out of time. No
    merchant delays another. Unreadable content is put aside each time, with the reason.
    """
    aside: list[tuple[str, str]] = []
    news: dict[str, list[Release]] = {}
    for message in event["Records"]:
        try:
            news[message["messageId"]], wrong = sweeps.releases(json.loads(message["body"]))
        except (ValueError, RecursionError) as unread:
            aside.append((message["body"], str(unread)))
        else:
            aside += [(json.dumps(wrong), sweeps.NO_RELEASE)] if wrong else []
    released = {one for releases in news.values() for one in releases}
    merchants = [list(spans) for _, spans in groupby(sweeps.spans(released), attrgetter("merchant"))]
    again: set[tuple[str, str]] = set()
    for unreadable, left in _workers.each(partial(_sweep_merchant, released, context), merchants):
        aside += [(json.dumps([one]), reason) for one, reason in sorted(unreadable.items())]
        again |= {(span.partition, span.minute) for span in left}
    for body, reason in aside:
        logger.warning("release put aside", reason=reason)
        queues.send("SWEEPS_PUT_ASIDE", body, reason=reason)
    failed = [name for name, releases in news.items() if not again.isdisjoint(map(sweeps.bucket, releases))]
    return {"batchItemFailures": [{"itemIdentifier": name} for name in failed]}


def _sweep_merchant(released: set[Release], context: Any, spans: Sequence[Span]) -> Swept:
    """Sweep the spans in turn: all write the same balance."""
    unreadable, left = dict[Release, str](), list[Span]()
    for place, span in enumerate(spans):
        if context.get_remaining_time_in_millis() < RESERVED_MS:
            logger.warning("not swept", error="no time is left")
            return unreadable, [*left, *spans[place:]]
        try:
            unreadable |= _sweep(span, released)
        except SettlementError as failure:
            count(type(failure).__name__)
            logger.warning("not swept", error=type(failure).__name__)
            if not isinstance(failure, Refusal):  # the balance is busy, or the table gives no answer
                return unreadable, [*left, *spans[place:]]
            left.append(span)
    return unreadable, left


def _sweep(span: Span, released: set[Release]) -> dict[Release, str]:
    unread: dict[Release, str] = {}

    def unreadable(key: Row, reason: str) -> None:
        unread[key["pk"], key["sk"]] = reason

    try:
        sweeper.fold(_dependencies.store, span, unreadable)
    except ValueError as wrong:  # the minute's or the account's row is malformed: nothing can be folded
        return {(pk, sk): str(wrong) for pk, sk in released if span.covers(pk, sk)}
    return {one: reason for one, reason in unread.items() if one in released}
