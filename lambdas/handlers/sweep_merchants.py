"""SweepMerchants: make what merchants have received available to them, as the table's stream tells of it."""

import json
from typing import Any

from handlers import _dependencies, _queues
from settlement.adapters import sweeper
from settlement.adapters.telemetry import logger, observed
from settlement.ledger.keys import Row
from settlement.ledger.sweep import Span
from settlement.model.errors import Refusal
from settlement.policy import sweeps

Release = tuple[str, str]
"""The partition and the sort key of a merchant's entry."""


@observed("sweep")
def handler(event: dict[str, Any], context: object) -> None:
    """Sweep each minute of which PublishEvents has sent a release; its content is read from the table.

    What can never be read, a message, an entry, or the row of a minute, is put aside with the reason, and all
    others are swept. A refusal by one merchant's account does not keep the others waiting: it is raised at
    the end, and the messages come again, so that what is put aside may be so twice.
    """
    released, aside = set[Release](), list[tuple[str, str]]()
    for message in event["Records"]:
        try:
            released.update(sweeps.releases(json.loads(message["body"])))
        except (ValueError, RecursionError) as wrong:
            aside.append((message["body"], str(wrong)))
    refusals: list[Refusal] = []
    for span in sweeps.spans(released):
        try:
            unread = _sweep(span, released)
        except Refusal as refusal:
            refusals.append(refusal)
        else:
            aside += [(json.dumps([one]), reason) for one, reason in sorted(unread.items())]
    for body, reason in aside:
        logger.warning("release put aside", reason=reason)
        _queues.send("SWEEPS_PUT_ASIDE", body, reason=reason)
    if refusals:
        raise refusals[0]


def _sweep(span: Span, released: set[Release]) -> dict[Release, str]:
    """Sweep a span; return those of the releases in it that no sweep can read, and why."""
    unread: dict[Release, str] = {}

    def unreadable(key: Row, reason: str) -> None:
        unread[key["pk"], key["sk"]] = reason

    try:
        sweeper.fold(_dependencies.store, span, unreadable)
    except ValueError as wrong:  # the row of the minute, without which nothing of it can be folded
        return {(pk, sk): str(wrong) for pk, sk in released if span.covers(pk, sk)}
    return {one: reason for one, reason in unread.items() if one in released}
