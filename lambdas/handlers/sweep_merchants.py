"""SweepMerchants: make what merchants have received available to them, as the table's stream tells of it."""

from typing import Any

from handlers import _dependencies
from settlement.adapters import sweeper
from settlement.adapters.telemetry import observed
from settlement.model.errors import Refusal
from settlement.policy import sweeps


@observed("sweep")
def handler(event: dict[str, Any], context: object) -> None:
    """Sweep each minute of which the stream's records have news; their content is read from the table.

    A refusal by one merchant's account does not keep the others waiting: it is raised in the end, and the
    batch comes again.
    """
    refusals: list[Refusal] = []
    for span in sweeps.spans(map(_address, event["Records"])):
        try:
            sweeper.fold(_dependencies.store, span)
        except Refusal as refusal:
            refusals.append(refusal)
    if refusals:
        raise refusals[0]


def _address(record: dict[str, Any]) -> tuple[str, str]:
    """Return the partition and the sort key of the entry that a record tells of."""
    key = record["dynamodb"]["Keys"]
    return key["pk"]["S"], key["sk"]["S"]
