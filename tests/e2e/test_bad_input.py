import json

import pytest
from botocore.exceptions import ClientError

from settle.settlements.machines import explain
from tests.e2e.embedded import Embedded, new_request

pytestmark = pytest.mark.long

CONTROLS = "an unknown field that controls a terminal"


def express(embedded: Embedded, request: str) -> tuple[str, str]:
    """Return the error and message of a refusal, by the machine or by Step Functions."""
    try:
        execution = embedded.step_functions.start_sync_execution(
            stateMachineArn=embedded.stack.outputs["SettlementExpressArn"], input=request
        )
    except ClientError as refusal:
        return "refused by Step Functions", str(refusal)
    assert execution["status"] == "FAILED"
    return execution["error"], explain(execution["cause"])


@pytest.mark.parametrize(
    ("request_text", "messages"),
    [
        pytest.param(
            '{"key": 1, "payer": 2, "amount": 3.0, "currency": "EUR"}',
            ["amount: must be a decimal", "key: must be a string", "payee: missing", "payer: must be a"],
            id="several fields",
        ),
        pytest.param(
            '{"key": ' + "[" * 1_200 + "]" * 1_200 + "}", ["key: must be a string that matches"], id="deep"
        ),
        pytest.param("null", ["request: must be a JSON object with the fields key, payer,"], id="null"),
        pytest.param('{"\\u001b[2Jmemo": 1}', ["unknown field"], id=CONTROLS),
    ],
)
def test_refused_bad_input_names_each_fault_and_writes_nothing(
    embedded: Embedded, request_text: str, messages: list[str]
) -> None:
    with embedded.writes_nothing():
        error, explained = express(embedded, request_text)

    assert error == "InvalidRequest"
    assert [message for message in messages if message not in explained] == []


def test_a_request_too_large_for_step_functions_writes_nothing(embedded: Embedded) -> None:
    request = new_request(embedded, memo="x" * 300_000)

    with embedded.writes_nothing():
        error, explained = express(embedded, json.dumps(request))

    named = error == "InvalidRequest" and "memo: unknown field" in explained
    assert named or error == "refused by Step Functions"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"amount": 48.2}, "amount: must be a decimal string"),
        ({"fee": "2.42"}, "fee: must be from 0.00 to 2.41 for this amount, or be left out"),
        ({"\x1b[2Jme\nmo": "rent"}, "unknown field"),
        ({"memo": "x" * 300_000}, "request: must be at most 262144 bytes"),
    ],
    ids=["a float", "a fee", CONTROLS, "too long"],
)
def test_the_command_prints_a_refusal_in_one_terminal_safe_line(
    embedded: Embedded, changes: dict[str, object], message: str
) -> None:
    code, line = embedded.refused("start", "-", stdin=json.dumps(new_request(embedded, **changes)))

    assert (code, message in line) == (2, True), line
