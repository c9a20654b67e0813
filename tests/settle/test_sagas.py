"""A stack may have several sagas: `--stack STACK/SAGA`."""

import json

import pytest

from infra.config import STAGES
from settle.exit_codes import CommandFailed
from settle.stack import Stack, of_saga

EU = {"EuStageConfig": "{}", "EuTableName": "eu", "EuEventBusName": "settlement-eu"}
US = {"UsStageConfig": "{}", "UsTableName": "us"}
NEWER = {
    "StageConfig": json.dumps(
        json.loads(STAGES["dev"].stage_config) | {"currencies": {"EUR": 2}, "colour": "red"}
    ),
    "TableName": "own",
    "Colour": "red",
}
ALONE = {"StageConfig": "{}", "TableName": "own"}


@pytest.mark.parametrize(
    ("outputs", "saga", "table"),
    [(ALONE, "", "own"), (EU | US, "Eu", "eu"), (EU | US, "Us", "us"), (ALONE | EU, "", "own")],
)
def test_each_saga_of_a_stack_has_its_own_outputs(outputs: dict[str, str], saga: str, table: str) -> None:
    assert of_saga(outputs, "payments", saga)["TableName"] == table


@pytest.mark.parametrize("saga", ["", "Europe", "eu"])
def test_an_unknown_saga_is_refused_naming_the_known_ones(saga: str) -> None:
    with pytest.raises(CommandFailed, match=r"pass --stack payments/Eu or payments/Us$"):
        of_saga(EU | US, "payments", saga)


def test_a_stack_without_a_saga_is_refused_by_name() -> None:
    with pytest.raises(CommandFailed, match=r"stack other: is no settlement stack"):
        of_saga({"Else": "x"}, "other", "")


def test_a_stack_lacking_an_output_must_be_deployed_again() -> None:
    stack = Stack("own", of_saga(NEWER, "own", ""), None)

    assert stack.config.currencies == {"EUR": 2}
    with pytest.raises(CommandFailed, match=r"^stack: has no output OrdersUrl: it is too old, or .* again$"):
        stack.door  # noqa: B018


def test_commands_and_metrics_name_the_saga() -> None:
    stack = Stack("payments/Eu", of_saga(EU, "payments", "Eu"), None)

    assert stack.command("status", "order-1") == "settle status order-1 --stack payments/Eu"
    assert (stack.cloudformation, stack.saga, stack.service) == ("payments", "Eu", "settlement-eu")
