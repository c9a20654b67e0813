"""The compared ways, and the advice that each follows."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks import engine
from benchmarks.lives.judge import End, Outcome, judge
from benchmarks.lives.life import Life, draw
from benchmarks.rivals import Place

Play = Callable[[Life], tuple[End, list[str]]]


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way in the table: its title, its guide's advice as it was followed, and its module."""

    title: str
    told: str
    module: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_on_postgresql(self) -> bool:
        """Whether it needs the PostgreSQL server, and not the DynamoDB server."""
        return self.module == "dbos_postgres"


_SAMPLE = (
    "A function a step, in a Step Functions machine. A failed state reverses its own step and the earlier"
    " ones; a failed reversal notifies a topic; after either the execution fails."
)

WAYS = {
    "ours": Way(
        title="this project",
        told="Its machines, functions, LIMBO and recovery as they are deployed, on Standard, with recovery"
        " each minute.",
        module="ours",
    ),
    "sample": Way(
        title="AWS's samples, as published",
        told=f"{_SAMPLE} States repeat a function only for errors of the Lambda service, six times; the"
        " function's own error leads to the reversals, a dead function fails the execution"
        " ([sample](https://github.com/aws-samples/aws-step-functions-long-lived-transactions)).",
        module="machine",
        options={"retries": False},
    ),
    "sample-retries": Way(
        title="AWS's samples, with retries",
        told="The same machine, with a `Retry`'s default: three more calls after any error but a refusal. An"
        " error after these leads to the reversals.",
        module="machine",
        options={"retries": True},
    ),
    "powertools": Way(
        title="Powertools' idempotency, timeout 3 s",
        told="The machine with retries, and the decorator around each function, with the payment's key. After"
        " the functions' timeout, Lambda's default, the decorator lets the next try of a dead one pass. The"
        " clock passes by the machine's pauses of 1, 2 and 4 s"
        " ([guide](https://docs.powertools.aws.dev/lambda/python/latest/utilities/idempotency/)).",
        module="machine",
        options={"retries": True, "is_idempotent": True},
    ),
    "powertools-slow": Way(
        title="Powertools' idempotency, timeout 30 s",
        told="The same, but a timeout beyond the pauses lets no further try of a dead function pass.",
        module="machine",
        options={"retries": True, "is_idempotent": True, "timeout_seconds": 30},
    ),
    "durable": Way(
        title="a durable function",
        told="Steps with six tries, the default. Each successful step registers its reversal; an exception"
        " runs them in reverse order, each in a step, logs those that fail, and is raised again"
        " ([guide](https://github.com/aws/aws-durable-execution-docs/blob/main/docs/patterns/best-practices/saga-pattern.md)).",
        module="durable",
    ),
    "durable-sample": Way(
        title="a durable function, as in AWS's sample",
        told="The same, but it returns a failure as its result, and the execution"
        " succeeds ([sample](https://github.com/aws-samples/serverless-patterns/tree/main/lambda-durable-saga-python-sam)).",
        module="durable",
        options={"returns_failure": True},
    ),
    "durable-once": Way(
        title="a durable function, at most once",
        told="The guide's function with at-most-once semantics and no retry for steps that move money, as the"
        " guide advises for effects that are not idempotent"
        " ([guide](https://github.com/aws/aws-durable-execution-docs/blob/main/docs/patterns/best-practices/idempotency.md)).",
        module="durable",
        options={"at_most_once": True},
    ),
    "dbos": Way(
        title="DBOS on PostgreSQL",
        told="A workflow of datasource transactions. An exception runs the reversals of the completed steps,"
        " each a transaction; one that fails ends the workflow with an error. DBOS recovers the workflow of a"
        " dead or hanging process ([example](https://docs.dbos.dev/python/examples/widget-store)).",
        module="dbos_postgres",
    ),
}
"""Maps short names to ways."""


def play(name: str, url: str, seeds: range) -> list[Outcome]:
    """Play the lives of the seeds in one way, on a server."""
    one = player(WAYS[name], url, name)
    return [_outcome(life, one) for life in map(draw, seeds)]


def player(way: Way, url: str, table: str) -> Play:
    """Return the player of a way. Its lives share a table, except in this project's way."""
    module = importlib.import_module(f"benchmarks.lives.{way.module}")
    if way.module == "ours":
        return lambda life: module.play(engine.table(url, f"{table}-{life.seed}", is_ours=True), life)
    if way.is_on_postgresql:
        return module.Dbos(Place(url, "postgres")).play  # type: ignore[no-any-return]
    place = engine.table(url, table, is_ours=False)
    return lambda life: module.play(place, life, **way.options)


def _outcome(life: Life, one: Play) -> Outcome:
    end, told = one(life)
    verdict = judge(end)
    assert not (life.is_rejected and end.moved["bob"] > 0 and verdict == "right"), life
    return Outcome(life.seed, verdict, end, told)
