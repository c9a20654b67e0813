"""The price of a million settlements by each way of starting them, with all services: pure arithmetic."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from benchmarks import cost, idle
from benchmarks.cost import GB_BYTES, MILLION, Tariff, Usage
from benchmarks.stage import Stage
from benchmarks.storage import Kept

_QUEUE_REQUESTS = 3
"""A send, a receive and a delete, for a message that comes alone."""


class Way(StrEnum):
    """A way of starting a settlement. The callers of the last two wait until it is finished."""

    EXPRESS = "Express"
    STANDARD = "Standard"
    QUEUE = "start queue"
    POST = "`POST`"
    ASKED = "`POST`, then `GET` each second"
    HELD = "`POST` with `Prefer: wait`"

    @property
    def is_by_http(self) -> bool:
        return self in (Way.POST, Way.ASKED, Way.HELD)

    @property
    def claims_first(self) -> bool:
        return self.is_by_http or self is Way.QUEUE


TARGETS = {Way.EXPRESS: 18, Way.STANDARD: 120, Way.QUEUE: 22, Way.POST: 23, Way.ASKED: 25, Way.HELD: 25}
"""Maximum dollars per million settlements for a payment's own services."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The facts that decide the price.

    `used` is the usage of a payment's own four functions. `call_cpu_ms` is the CPU time of one service call,
    on a whole vCPU. `kept` has the bytes of a payment's rows.
    """

    used: Usage
    call_cpu_ms: float
    kept: Kept
    stage: Stage
    tariff: Tariff

    def of_payment(self, way: Way) -> dict[str, float]:
        """Return the dollars per million settlements for a payment's own services, by service."""
        prices, model = self.tariff.prices, self.tariff.model
        bill = (cost.standard if way is Way.STANDARD else cost.express)(self.payment(way), self.tariff)
        door = cost.standard(self.door(way), self.tariff)
        calls = self.api_calls(way)
        logged = calls * (model["api_log_bytes"] + model["event_bytes"]) / GB_BYTES * prices["log_gb"]
        out = (model["kyc_bytes"] + calls * model["answer_bytes"]) / GB_BYTES * prices["gb_out"]
        requests = _QUEUE_REQUESTS if way is Way.QUEUE else 0
        return {
            "DynamoDB": bill.database + door.database,
            "Lambda": bill.functions + door.functions,
            "Step Functions": bill.orchestration,
            "logs": bill.logs + door.logs + MILLION * logged,
            "HTTP API": MILLION * calls * prices["api_call"],
            "SQS": MILLION * requests * prices["queue_request"],
            "data to the internet": MILLION * out,
            "X-Ray": MILLION * self.stage.settings.traced_percent / 100 * prices["trace"],
        }

    def of_all(self, per_second: float) -> dict[str, float]:
        """Return the dollars per million settlements that every way pays, at `per_second`."""
        prices, model = self.tariff.prices, self.tariff.model
        by_month = sum(self.idle_month().values()) + model["load_metrics"] * prices["custom_metric_month"]
        copies = model["journal_bytes"] * MILLION / GB_BYTES * prices["s3_gb_month"]
        return {
            "outcome events": cost.outcome_events(per_second, self.shards, self.tariff),
            "the journal": cost.sealed_journal(per_second, self.shards, self.tariff) + copies,
            "the stage itself": by_month / (per_second * model["seconds_of_month"]) * MILLION,
            "the rows, kept for a month": self.kept.usd_per_million_month(prices, is_expired=False),
            "the proofs of that month": self.kept.proof_usd_per_million_month(prices, self.proofs_a_month),
        }

    def payment(self, way: Way) -> Usage:
        """Return the usage of a payment's own functions. HoldFunds reads the claim first, if there is one."""
        read = Usage(read_units=1, cpu_ms=self.call_cpu_ms, waiting_ms=self.tariff.model["read_ms"])
        return self.used.plus(read) if way.claims_first else self.used

    def door(self, way: Way) -> Usage:
        """Return the usage of claiming, starting and waiting."""
        if not way.claims_first:
            return Usage()
        model = self.tariff.model
        claims = Usage(
            write_units=1,
            invocations=1,
            cpu_ms=2 * self.call_cpu_ms,  # the claim and the start
            waiting_ms=model["write_ms"] + model["start_ms"],
            memory_mb=self.stage.memory_mb["StartSettlements" if way is Way.QUEUE else "AcceptSettlements"],
            log_bytes=model["door_log_bytes"] + model["event_bytes"],
        )
        looks = model["wait_seconds"]  # one a second
        look = Usage(read_units=1, cpu_ms=self.call_cpu_ms, waiting_ms=model["read_ms"])
        if way is Way.HELD:
            return claims.plus(look.times(looks)).plus(Usage(waiting_ms=1_000 * model["wait_seconds"]))
        if way is Way.ASKED:
            return claims.plus(look.plus(Usage(invocations=1, log_bytes=claims.log_bytes)).times(looks))
        return claims

    def api_calls(self, way: Way) -> float:
        return way.is_by_http + (self.tariff.model["wait_seconds"] if way is Way.ASKED else 0)

    @property
    def shards(self) -> int:
        """The shards of the table's stream: one per partition. The warm units decide the partitions."""
        units, model = self.stage.settings.warm_write_units or 0, self.tariff.model
        return int(max(model["new_table_shards"], -(-units // model["partition_units"])))

    @property
    def proofs_a_month(self) -> float:
        hours = self.stage.settings.reconcile_every_hours
        return self.tariff.model["seconds_of_month"] / 3_600 / hours if hours else 0

    def idle_month(self) -> Mapping[str, float]:
        """Return the dollars of a month without payments."""
        prices, model, stage = self.tariff.prices, self.tariff.model, self.stage
        minutes = model["seconds_of_month"] / 60
        runs = stage.runs_a_minute * minutes
        queries = model["idle_queries_minute"] * minutes
        gb_seconds = (runs * model["idle_call_ms"] + queries * model["read_ms"]) / 1_000
        gb_seconds *= stage.memory_mb["RecoverStalled"] / 1_024
        receives = sum(min(model["pollers"], most) for most in stage.queue_concurrency)
        receives *= model["poller_receives_minute"] * minutes
        return {
            "keys, secrets, alarms and the dashboard": idle.dollars(stage.by_month, prices),
            "metrics": model["idle_metrics"] * prices["custom_metric_month"],
            "schedules": runs * prices["schedule_call"],
            "their functions": runs * prices["lambda_request"] + gb_seconds * prices["lambda_gb_second"],
            "their logs": runs * model["idle_log_bytes"] / GB_BYTES * prices["log_gb"],
            "recovery's queries": queries * model["idle_query_read_units"] * prices["read_unit"],
            "looks at empty queues": receives * prices["queue_request"],
        }
