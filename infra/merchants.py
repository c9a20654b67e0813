"""The sweep of merchants: the table's stream calls SweepMerchants, and a queue keeps what it gives up."""

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.config import Settings
from infra.pager import Pager
from infra.stream_trigger import Batches, call_by_stream
from infra.table import SettlementTable

RELEASES = {
    "eventName": ["INSERT"],
    "dynamodb": {
        "Keys": {"pk": {"S": [{"prefix": "ENTRIES#merchant."}]}},
        "NewImage": {"step": {"S": ["release"]}},
    },
}
"""The records that call the function: of releases to merchants, as `ledger/keys.py` has their rows."""

_BEHIND_SECONDS = 300
"""The age of a release that no sweep has reached, at which a person looks."""


class Merchants(Construct):
    """The stream's records of releases to merchants, their function, and the queue of what it gives up.

    A failed batch is tried again for a quarter of an hour, then a person sweeps by hand. A record that comes
    again does no harm.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        function: lambda_.Function,
        ledger: SettlementTable,
        pager: Pager,
        settings: Settings,
    ) -> None:
        super().__init__(scope, construct_id)
        batches = Batches(
            filters=[RELEASES], size=1_000, window=Duration.seconds(1), age_max=Duration.minutes(15)
        )
        self.given_up = call_by_stream(self, batches, function=function, ledger=ledger, settings=settings)
        pager.alarm(
            "SweepsGivenUp",
            self.given_up.metric_approximate_number_of_messages_visible(
                period=Duration.minutes(1), statistic="Maximum"
            ),
            "What a merchant has received is not available, and no sweep will come to it by itself.",
        )
        self.age = function.metric("IteratorAge", period=Duration.minutes(5), statistic="Maximum")
        pager.alarm(
            "SweepBehind",
            self.age,
            "What merchants receive becomes available minutes late.",
            threshold=_BEHIND_SECONDS * 1_000,
        )
