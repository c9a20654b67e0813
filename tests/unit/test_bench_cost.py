import tomllib
from dataclasses import fields, replace

import pytest

from benchmarks import cost
from benchmarks.cost import Bill, Tariff, Usage
from tests.world.templates import PROJECT

PRICES = PROJECT / "benchmarks/prices.toml"
TARIFF = Tariff(
    prices={
        "write_unit": 1e-6,
        "read_unit": 1e-7,
        "lambda_request": 1e-6,
        "lambda_gb_second": 1e-5,
        "durable_operation": 2e-6,
        "durable_gb_written": 1.0,
        "state_transition": 25e-6,
        "express_request": 1e-6,
        "express_gb_second": 16e-6,
        "log_gb": 0.5,
        "s3_put": 5e-6,
        "storage_gb_month": 0.25,
        "backup_gb_month": 0.2,
        "kms_key_month": 1.0,
        "secret_month": 0.4,
        "alarm_metric_month": 0.1,
        "dashboard_month": 3.0,
        "custom_metric_month": 0.3,
        "api_call": 1e-6,
        "queue_request": 4e-7,
        "event": 1e-6,
        "schedule_call": 1e-6,
        "trace": 5e-6,
        "gb_out": 0.09,
        "s3_gb_month": 0.023,
        "vault_gb_month": 0.1,
        "fifo_message": 3e-7,
        "database_hour": 0.36,
        "aurora_unit_hour": 0.12,
        "aurora_gb_month": 0.1,
        "container_vcpu_hour": 0.03,
        "container_gb_hour": 0.003,
    },
    model={
        "memory_mb_of_a_vcpu": 2048,
        "task_overhead_ms": 25,
        "express_memory_mb": 64,
        "containers": 2,
        "container_vcpu": 0.5,
        "container_gb_of_a_vcpu": 2,
        "container_utilisation": 0.5,
    },
)
USED = Usage(
    write_units=20,
    read_units=10,
    invocations=4,
    cpu_ms=40,
    waiting_ms=120,
    memory_mb=1024,
    log_bytes=2000,
    transitions=4,
)


def near(bill: Bill, *parts: float) -> None:
    assert [getattr(bill, field.name) for field in fields(Bill)] == pytest.approx(parts)
    assert bill.total == pytest.approx(sum(parts))


@pytest.mark.parametrize(
    ("memory_mb", "expected_ms"), [(512, 120 + 160), (1024, 120 + 80), (2048, 120 + 40), (4096, 120 + 40)]
)
def test_memory_speeds_functions_up_to_one_vcpu(memory_mb: int, expected_ms: float) -> None:
    used = replace(USED, memory_mb=memory_mb)

    assert cost.function_ms(used, TARIFF) == expected_ms


def test_a_standard_machine_costs_per_state_transition() -> None:
    near(cost.standard(USED, TARIFF), 21, 4 + 2, 100, 1)


def test_an_express_machine_costs_per_request_and_100_ms() -> None:
    short, longer = (replace(USED, waiting_ms=waiting) for waiting in (120, 121))

    near(cost.express(short, TARIFF), 21, 6, 1 + 0.3, 1)
    near(cost.express(longer, TARIFF), 21, 6.01, 1 + 0.4, 1)


def test_a_durable_function_costs_per_operation_and_stored_byte() -> None:
    used = replace(USED, durable_operations=5, durable_bytes=3000)

    near(cost.durable(used, TARIFF), 21, 6, 10 + 3, 1)


@pytest.mark.parametrize(
    ("per_second", "database", "containers"),
    [(1, 100, 10), (100, 1, 0.8)],  # one vCPU of the two containers suffices; and 100 x 40 ms need eight
)
def test_servers_cost_per_hour_whatever_the_load(
    per_second: float, database: float, containers: float
) -> None:
    used = Usage(cpu_ms=40, log_bytes=2000)

    near(cost.servers(used, TARIFF, per_second), database, containers, 0, 1)


def test_every_price_is_used_and_has_a_source_and_date() -> None:
    prices = tomllib.loads(PRICES.read_text())["price"]

    assert prices.keys() == TARIFF.prices.keys()
    assert all(price["source"].startswith("https://") and price["date"] for price in prices.values())


def test_the_price_file_contains_every_assumption_of_the_model() -> None:
    tariff = cost.load(PRICES)

    assert TARIFF.model.keys() <= tariff.model.keys()
    assert cost.standard(USED, tariff).total == pytest.approx(
        20 * 0.625 + 10 * 0.125 + 4 * 0.2 + (120 + 40 * 1769 / 1024) / 1000 * 13.3334 + 100 + 1
    )


@pytest.mark.parametrize(
    ("per_second", "shards", "dollars"), [(50, 4, 0.01), (10, 4, 0.03), (1, 4, 0.25), (1, 12, 0.73)]
)
def test_sealed_copies_cost_at_most_a_twentieth_of_a_settlement(
    per_second: float, shards: int, dollars: float
) -> None:
    found = cost.sealed_journal(per_second, shards, cost.load(PRICES))

    assert round(found, 2) == dollars
    assert found < 0.05 * 17.7


def test_busy_stages_pay_for_full_batches_and_quiet_for_windows() -> None:
    tariff = cost.load(PRICES)

    assert cost.sealed_journal(10_000, 4, tariff) == cost.sealed_journal(1_000, 4, tariff)
    assert cost.sealed_journal(0.1, 4, tariff) > 5 * cost.sealed_journal(1, 4, tariff)


def test_a_single_payment_pays_for_its_own_publishing_call() -> None:
    tariff = cost.load(PRICES)

    lonely, busy = (cost.outcome_events(rate, 12, tariff) for rate in (0.001, 10_000))
    assert lonely == pytest.approx(4 + 2 * 0.2 + (2 * 0.06 + 5 * 0.0001) * 13.3334)
    assert busy == pytest.approx(4 + 0.05 * 0.2 + (0.05 * 0.06 + 5 * 0.0001) * 13.3334)
