"""The settlements a second that each limit allows, by the way of starting them: pure arithmetic."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil

from benchmarks import cost
from benchmarks.cost import Usage
from benchmarks.ways import Estimate, Way
from infra.concurrency import UNRESERVED_MIN

POOL = "pool"
"""The limit of unreserved concurrency."""

_VERIFY_READS, _VERIFY_WRITES = 1, 2
"""Calls of DynamoDB by VerifyKyc."""


@dataclass(frozen=True)
class Limit:
    """A limit: its name in `quotas.toml`, its value, and the settlements a second that it allows."""

    name: str
    value: float
    per_second: float

    def needed(self, per_second: float) -> int:
        return ceil(self.value * per_second / self.per_second)


def limits(way: Way, estimate: Estimate, quotas: Mapping[str, float]) -> list[Limit]:
    """Return the limits of a stage for a way, the lowest first."""
    return sorted(_limits(way, estimate, quotas), key=lambda one: one.per_second)


def _limits(way: Way, estimate: Estimate, quotas: Mapping[str, float]) -> Iterator[Limit]:
    settings, door = estimate.stage.settings, estimate.door(way)
    shares, units = settings.concurrency, estimate.used.write_units + door.write_units
    verify, pooled = _verify_seconds(estimate), _seconds(estimate.payment(way), estimate)
    # Looks run in another function than the start, and take less of it.
    door_seconds = _seconds(estimate.door(Way.POST) if way is Way.ASKED else door, estimate)

    def limit(name: str, value: float, each: float) -> Limit:
        return Limit(name, value, value / each)

    if shares.kyc:
        pooled -= verify
        yield limit("kyc", shares.kyc, verify)
    if way.is_by_http and shares.waiting:
        yield limit("waiting", shares.waiting, door_seconds)
    else:
        pooled += door_seconds
    yield limit(POOL, shares.account - shares.reserved, pooled)
    yield limit("table", settings.warm_write_units or quotas["new_table_units"], units)
    yield limit("table_most", quotas["table_units"], units)
    if way is Way.STANDARD:
        yield limit("standard_starts", quotas["standard_starts"], 1)
        yield limit("standard_transitions", quotas["standard_transitions"], estimate.used.transitions)
    else:
        yield limit("express_starts", quotas["express_starts"], 1)
    if way is Way.QUEUE:
        yield limit("queue", settings.start_queue_calls, door_seconds)
    if way.is_by_http:
        yield limit("api", settings.api_calls_per_second, estimate.api_calls(way))


def account(per_second: float, lowest: Mapping[str, Limit], estimate: Estimate) -> int:
    """Return the account's concurrency for `per_second`: raised reservations, and the unreserved rest.

    It is at least the present concurrency.
    """
    shares = estimate.stage.settings.concurrency
    raised = {
        name: max(getattr(shares, name), lowest[name].needed(per_second)) for name in ("kyc", "waiting")
    }
    reserved = replace(shares, account=10**6, **raised).reserved
    return max(shares.account, reserved + max(UNRESERVED_MIN, lowest[POOL].needed(per_second)))


def _verify_seconds(estimate: Estimate) -> float:
    model = estimate.tariff.model
    calls = _VERIFY_READS + _VERIFY_WRITES
    waits = model["provider_ms"] + _VERIFY_READS * model["read_ms"] + _VERIFY_WRITES * model["write_ms"]
    return _seconds(
        Usage(cpu_ms=calls * estimate.call_cpu_ms, waiting_ms=waits, memory_mb=estimate.used.memory_mb),
        estimate,
    )


def _seconds(used: Usage, estimate: Estimate) -> float:
    return cost.function_ms(used, estimate.tariff) / 1_000 if used.memory_mb else 0
