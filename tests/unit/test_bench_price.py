"""Tests the calculated cost and limits of a million payments: `benchmarks/million.py` and its parts."""

import tomllib
from dataclasses import replace

import pytest

from benchmarks import idle, million, throughput
from benchmarks.cost import Tariff, Usage
from benchmarks.stage import Stage
from benchmarks.storage import Kept
from benchmarks.throughput import Limit
from benchmarks.ways import Estimate, Way
from infra.concurrency import Concurrency
from infra.config import STAGES
from tests.infra.stack import changed, template
from tests.world.rooms import there

CONTENT = tomllib.loads(million.PRICES.read_text())
ALL_ON = {
    "ordered_events": True,
    "backup_days": 7,
    "webhook": "http-api",
    **dict(there("books", ("books_every_minutes", 5))),
}
STAGE = Stage(
    settings=replace(STAGES["prod"], traced_percent=20),
    memory_mb={"StartSettlements": 1024, "AcceptSettlements": 512, "RecoverStalled": 1024},
    by_month={"secret_month": 2},
    runs_a_minute=2,
    queue_concurrency=(2, 25),
)
ESTIMATE = Estimate(
    used=Usage(
        write_units=20, read_units=2, invocations=4, cpu_ms=28, waiting_ms=200, memory_mb=512, transitions=4
    ),
    call_cpu_ms=4,
    kept=Kept(1_000, 500),
    stage=STAGE,
    tariff=Tariff(
        prices={name: price["usd"] / price["per"] for name, price in CONTENT["price"].items()},
        model=CONTENT["model"] | {"memory_mb_of_a_vcpu": 2048, "write_ms": 5, "start_ms": 25, "read_ms": 4},
    ),
)
QUOTAS = tomllib.loads(million.QUOTAS.read_text())["quota"]


@pytest.mark.parametrize("page", [million.PRICE_PAGE, million.QUOTAS_PAGE], ids=lambda page: page.name)
def test_the_price_page_is_what_the_command_writes(page) -> None:  # type: ignore[no-untyped-def]
    assert page.read_text() == million.rendered(page), "run make price"


def test_every_kind_of_resource_is_counted_or_has_a_reason() -> None:
    resources = [*template("dev").values(), *template("prod").values(), *changed("prod", **ALL_ON).values()]
    counted = CONTENT["counted"]

    kinds = {resource["Type"] for resource in resources}
    assert sorted(kinds - counted.keys()) == []
    named = {price for by in counted.values() if not isinstance(by, str) for price in by}
    assert sorted(named - CONTENT["price"].keys()) == []


def test_a_waiting_call_costs_its_seconds_of_memory() -> None:
    post, held = (ESTIMATE.of_payment(way) for way in (Way.POST, Way.HELD))
    looks_seconds = 2 * (4 + 4 * 4) / 1_000

    seconds = (held["Lambda"] - post["Lambda"]) / (0.5 * 13.3334)
    assert seconds == pytest.approx(2 + looks_seconds)
    assert held["DynamoDB"] - post["DynamoDB"] == pytest.approx(2 * 0.125)
    assert held["HTTP API"] == post["HTTP API"] == pytest.approx(1)


def test_polling_costs_api_calls_but_no_waiting_time() -> None:
    post, asked = (ESTIMATE.of_payment(way) for way in (Way.POST, Way.ASKED))

    assert asked["HTTP API"] == pytest.approx(3)
    assert asked["Lambda"] - post["Lambda"] == pytest.approx(2 * (0.2 + 0.02 * 0.5 * 13.3334))


def test_a_queued_payment_costs_a_claim_and_a_message_more() -> None:
    express, queue = (ESTIMATE.of_payment(way) for way in (Way.EXPRESS, Way.QUEUE))

    assert queue["DynamoDB"] - express["DynamoDB"] == pytest.approx(0.625 + 0.125)
    assert queue["SQS"] == pytest.approx(3 * 0.4)
    read = 0.020 * 0.5  # of HoldFunds
    assert queue["Lambda"] - express["Lambda"] == pytest.approx(0.2 + (0.046 + read) * 13.3334)
    assert (express["SQS"], express["HTTP API"], queue["HTTP API"]) == (0, 0, 0)


def test_traces_cost_by_the_stages_sampled_share() -> None:
    assert {round(ESTIMATE.of_payment(way)["X-Ray"], 9) for way in Way} == {1.0}


def test_the_stages_month_is_divided_by_its_payments() -> None:
    once, often = ESTIMATE.of_all(1), ESTIMATE.of_all(100)

    assert once["the stage itself"] == pytest.approx(100 * often["the stage itself"])
    assert once["the rows, kept for a month"] == pytest.approx(1_500 / 1_000 * 0.45)
    runs = 2_628_000 / 3_600 / 24
    assert once["the proofs of that month"] == pytest.approx(1_500e6 / 4_096 * runs * 0.125e-6)


def test_an_idle_month_pays_for_schedules_queries_and_empty_queues() -> None:
    found = ESTIMATE.idle_month()

    minutes = 43_800
    assert found["keys, secrets, alarms and the dashboard"] == pytest.approx(0.8)
    assert found["schedules"] == pytest.approx(2 * minutes * 1e-6)
    assert found["looks at empty queues"] == pytest.approx((2 + 5) * 3 * minutes * 0.4e-6)
    assert found["recovery's queries"] == pytest.approx(25 * minutes * 0.5 * 0.125e-6)


@pytest.mark.parametrize(
    ("properties", "metrics"),
    [
        ({"MetricName": "Settled"}, 1),
        ({"Metrics": [{"MetricStat": {}}, {"MetricStat": {}}, {"Expression": "a + b"}]}, 2),
    ],
)
def test_an_alarm_costs_per_metric_it_reads(properties: dict[str, object], metrics: int) -> None:
    alarm = {"Type": "AWS::CloudWatch::Alarm", "Properties": properties}

    assert idle.counts([alarm, {"Type": "AWS::SNS::Topic"}]) == {idle.ALARM: metrics}


@pytest.mark.parametrize(("units", "shards"), [(None, 4), (4_001, 5), (12_000, 12), (12_001, 13)])
def test_the_stream_has_a_shard_for_each_partition(units: int | None, shards: int) -> None:
    settings = replace(STAGE.settings, warm_write_units=units)

    assert replace(ESTIMATE, stage=replace(STAGE, settings=settings)).shards == shards


def bears(way: Way, **settings: object) -> dict[str, float]:
    changed_settings = replace(STAGE.settings, **settings)  # type: ignore[arg-type]
    stage = replace(STAGE, settings=changed_settings)
    found = throughput.limits(way, replace(ESTIMATE, stage=stage), QUOTAS)
    assert found == sorted(found, key=lambda one: one.per_second)
    return {one.name: one.per_second for one in found}


def test_a_queues_throughput_follows_from_its_calls_and_message_time() -> None:
    found = bears(Way.QUEUE, start_queue_calls=23, warm_write_units=21_000)

    assert found["queue"] == pytest.approx(23 / 0.046)
    assert found["table"] == pytest.approx(1_000)


def test_waiting_callers_use_up_their_functions_concurrency() -> None:
    found, without = bears(Way.HELD, api_calls_per_second=70), bears(Way.POST)

    assert found["waiting"] == pytest.approx(50 / (0.062 + 2 + 0.04))
    assert without["waiting"] == pytest.approx(50 / 0.062)
    assert found["api"] == 70


def test_without_reservations_all_functions_share_the_account() -> None:
    found = bears(Way.HELD, concurrency=Concurrency(account=1_000))

    own = (200 + 4 + (28 + 4) * 4) / 1_000
    assert found["pool"] == pytest.approx(1_000 / (own + 0.062 + 2.04))
    assert not found.keys() & {"kyc", "waiting"}


def test_standard_is_limited_by_its_starts_and_transitions() -> None:
    found = bears(Way.STANDARD)

    assert (found["standard_starts"], found["standard_transitions"]) == (300, 1_250)
    assert "express_starts" not in found
    assert bears(Way.EXPRESS)["express_starts"] == 6_000


def test_the_needed_value_of_a_limit_follows_from_the_rate() -> None:
    limit = Limit("queue", 25, 500)

    assert [limit.needed(rate) for rate in (500, 501, 2_000)] == [25, 26, 100]


def test_the_accounts_quota_is_the_sum_of_reservations_and_rest() -> None:
    lowest = {
        name: Limit(name, value, each)
        for name, value, each in (("kyc", 200, 1_000), ("waiting", 50, 1_000), ("pool", 480, 4_800))
    }

    assert throughput.account(500, lowest, ESTIMATE) == 1_000
    assert throughput.account(2_000, lowest, ESTIMATE) == 520 + 200 + 2 * 50 + 200
    assert throughput.account(4_000, lowest, ESTIMATE) == 520 + 600 + 2 * 150 + 400
