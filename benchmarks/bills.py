"""Convert the measured usage of a settlement into dollars."""

from collections.abc import Mapping

from benchmarks import cost
from benchmarks.cost import Bill, Tariff, Usage
from benchmarks.deployment import Deployment
from benchmarks.interleave import Measured
from benchmarks.rivals import ENTRANTS

TARGETS = {"Express": 18, "Standard": 120}
"""This project's maximum dollars per million settlements."""

STRETCH = {"Express": 15}
"""Stretch targets, in dollars per million settlements."""

_LATENCIES = {
    "TransactWriteItems": "transaction_ms",
    "PutItem": "write_ms",
    "UpdateItem": "write_ms",
    "GetItem": "read_ms",
}


def usage(name: str, measured: Mapping[str, Measured], deployed: Deployment, tariff: Tariff) -> Usage:
    """Return a rival's usage per settlement on AWS, with this project's deployment settings.

    CPU time is scaled by its ratio to the bare calls of the same run.
    """
    entrant, own, model = ENTRANTS[name], measured[name], tariff.model
    counted, calls = own.counted, own.counted["calls"]
    bare_cpu_ms = len(measured["bare"].counted["calls"]) * model["bare_call_cpu_ms"]
    states = len(deployed.states) if entrant.module == "ours" else entrant.functions
    log_bytes = counted["log_bytes"] + counted["log_lines"] * model["event_bytes"]
    if deployed.logs_platform:
        events = entrant.functions * model["platform_text_events"]
        log_bytes += entrant.functions * model["platform_text_bytes"] + events * model["event_bytes"]
    if deployed.logs_states and entrant.billed == "machine":
        log_bytes += states * model["state_log_events"] * (model["state_log_bytes"] + model["event_bytes"])
    return Usage(
        write_units=counted["write_units"],
        read_units=counted["read_units"],
        invocations=entrant.functions,
        cpu_ms=own.cpu_ratio * bare_cpu_ms,
        waiting_ms=model["provider_ms"] + sum(model[_LATENCIES[call]] for call in calls),
        memory_mb=deployed.memory_mb if entrant.functions else 0,
        log_bytes=log_bytes,
        transitions=states if entrant.billed == "machine" else 0,
        durable_operations=counted.get("durable_operations", 0),
        durable_bytes=counted.get("durable_bytes", 0),
    )


def bills(
    name: str, measured: Mapping[str, Measured], deployed: Deployment, tariff: Tariff
) -> dict[str, Bill]:
    """Return a rival's bills by variant, such as Express. The bare calls have no bill."""
    used, model = usage(name, measured, deployed, tariff), tariff.model
    match ENTRANTS[name].billed:
        case "machine":
            return {"Express": cost.express(used, tariff), "Standard": cost.standard(used, tariff)}
        case "durable":
            return {"durable": cost.durable(used, tariff)}
        case "servers":
            rates = (model["per_second_high"], model["per_second_low"])
            return {f"at {rate:g}/s": cost.servers(used, tariff, rate) for rate in rates}
    return {}
