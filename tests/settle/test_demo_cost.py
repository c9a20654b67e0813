import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from settle.local.demo import cost
from settle.local.demo.cost import Cost
from settle.stack import Stack

FUNCTIONS = ("HoldFunds", "VerifyKyc")
RESOURCES = [
    *({"ResourceType": "AWS::Lambda::Function", "PhysicalResourceId": name} for name in FUNCTIONS),
    {"ResourceType": "AWS::DynamoDB::Table", "PhysicalResourceId": "the-table"},
]


def line(execution: str = "an-execution", /, **units: float) -> str:
    used = {operation: {"calls": 1, "units": number} for operation, number in units.items()}
    return json.dumps({"execution": execution, "step": "hold", "dynamodb": used, "StepCalled": [1.0]})


class Aws:
    """CloudFormation, Lambda and CloudWatch Logs, with these log lines."""

    def __init__(self, logs: dict[str, list[str]]) -> None:
        self.logs, self.asked = logs, list[dict[str, Any]]()

    def get_paginator(self, operation: str) -> SimpleNamespace:
        pages: dict[str, Any] = {"list_stack_resources": self._resources, "filter_log_events": self._events}
        return SimpleNamespace(paginate=pages[operation])

    def get_function_configuration(self, *, FunctionName: str) -> dict[str, Any]:  # noqa: N803
        return {"LoggingConfig": {"LogGroup": f"/logs/{FunctionName}"}}

    def _resources(self, *, StackName: str) -> Iterator[dict[str, Any]]:  # noqa: N803
        yield {"StackResourceSummaries": RESOURCES}

    def _events(self, **parameters: Any) -> Iterator[dict[str, Any]]:
        self.asked.append(parameters)
        function = parameters["logGroupName"].rpartition("/")[2]
        yield {"events": [{"message": text} for text in self.logs.get(function, [])]}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "time", SimpleNamespace(sleep=lambda seconds: None))


def costs(logs: dict[str, list[str]]) -> dict[str, Cost]:
    aws = Aws(logs)
    found = cost.since(cast(Stack, SimpleNamespace(cloudformation="s", client=lambda service: aws)), 12.5)
    assert {asked["startTime"] for asked in aws.asked} == {12_500}
    return found


REPEATED = json.dumps({"execution": "an-execution", "dynamodb": {"put_item": {"calls": 3, "units": 2.0}}})
OWN_LINE = json.dumps(
    {"message": "dynamodb", "operation": "put_item", "capacity_units": 3, "execution": "an-execution"}
)
"""A call's own log line, as the embedded stage writes it at full detail."""


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        *(
            ([line(**{operation: 6})], Cost(calls=1, write_units=6))
            for operation in ("put_item", "update_item", "transact_write_items")
        ),
        *(([line(**{operation: 6})], Cost(calls=1, read_units=6)) for operation in ("get_item", "query")),
        ([REPEATED], Cost(calls=3, write_units=2)),
        ([OWN_LINE, line(put_item=3)], Cost(calls=1, write_units=3)),
    ],
)
def test_each_call_counts_once_with_its_write_or_read_units(lines: list[str], found: Cost) -> None:
    assert costs({"HoldFunds": lines}) == {"an-execution": found}


def test_each_executions_cost_is_summed_over_all_functions() -> None:
    found = costs(
        {
            "HoldFunds": [line(transact_write_items=6), line("another", put_item=3)],
            "VerifyKyc": [line(get_item=1, transact_write_items=4), "no JSON", "[]", "{}"],
        }
    )

    assert found == {
        "an-execution": Cost(calls=3, write_units=10, read_units=1),
        "another": Cost(calls=1, write_units=3, read_units=0),
    }


def test_the_cost_waits_for_late_log_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = {"HoldFunds": [line(put_item=3)]}
    late: Iterator[Callable[[], object]] = iter([list, lambda: logs["HoldFunds"].append(line(put_item=3))])
    clock = SimpleNamespace(sleep=lambda seconds: next(late, list)())
    monkeypatch.setattr(cost, "time", clock)

    assert costs(logs) == {"an-execution": Cost(calls=2, write_units=6)}
