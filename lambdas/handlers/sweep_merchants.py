"""SweepMerchants: make what merchants have received available to them, as the table's stream tells of it."""

import json
from typing import Any

from handlers import _dependencies
from settlement.adapters import sweeper
from settlement.adapters.telemetry import observed
from settlement.model.errors import Refusal
from settlement.policy import sweeps


@observed("sweep")
def handler(event: dict[str, Any], context: object) -> None:
    """Sweep each minute of which PublishEvents has sent a release; its content is read from the table.

    A message has the partitions and the sort keys of the releases in a batch of the stream. A refusal by one
    merchant's account, or an entry that no function has put, does not keep the others waiting: it is raised
    at the end, and the messages come again.
    """
    released = [entry for message in event["Records"] for entry in json.loads(message["body"])]
    failures: list[Exception] = []
    for span in sweeps.spans((partition, sort_key) for partition, sort_key in released):
        try:
            sweeper.fold(_dependencies.store, span)
        except (Refusal, LookupError, TypeError, ValueError) as failure:
            failures.append(failure)
    if failures:
        raise failures[0]
