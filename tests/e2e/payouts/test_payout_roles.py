"""IAM denies a payout function's stolen role the actions that the function does not need.

The embedded AWS evaluates neither `dynamodb:LeadingKeys` nor `dynamodb:Attributes`. So tests of the template
show that BankEvents cannot change a payout's status, IBAN or amount.
"""

import pytest
from botocore.exceptions import ClientError

from infra.payouts import OPTIONAL
from tests.e2e.embedded import Embedded
from tests.e2e.test_iam import ACTIONS, acting_as, attempt, outcome_of

pytestmark = pytest.mark.long

DENIED = "AccessDeniedException"
SINGLE = {
    "ReservePayout": {"get_item"},
    "ServePayouts": {"get_item"},
    "FollowPayouts": {"get_item", "put_item"},  # the circuit's row
    "BankEvents": {"get_item"},
}
"""Each role's operations outside transactions."""

PUTS = {"ReservePayout", "ServePayouts", "FollowPayouts"}
"""Roles that may put a row in a transaction."""

SECRETS = {"BankCredentialsArn": "FollowPayouts", "BankSigningArn": "BankEvents"}
MACHINES = ("SettlementStandardArn", "SettlementExpressArn", "CompensationArn", "PayoutMachineArn")

each_function = pytest.mark.parametrize("function", OPTIONAL)


@each_function
def test_each_payout_role_writes_in_transactions_only(embedded: Embedded, function: str) -> None:
    client, table = acting_as(embedded, function, "dynamodb"), embedded.stack.outputs["TableName"]

    ended = {action: attempt(client, action, table, "PAYOUT#no-such-key") for action in ACTIONS}

    assert {action for action, told in ended.items() if told != DENIED} == SINGLE[function], ended


@each_function
def test_only_roles_that_move_money_put_entries(embedded: Embedded, function: str) -> None:
    table = embedded.stack.outputs["TableName"]
    item = {"pk": {"S": "ENTRIES#eve"}, "sk": {"S": "ENTRY#x"}}
    put = {"Put": {"TableName": table, "Item": item, "ConditionExpression": "attribute_exists(pk)"}}

    with pytest.raises(ClientError) as refused:
        acting_as(embedded, function, "dynamodb").transact_write_items(TransactItems=[put])

    by_condition = "TransactionCanceledException"
    assert refused.value.response["Error"]["Code"] == (by_condition if function in PUTS else DENIED)


@each_function
def test_each_secret_of_the_bank_has_one_reader(embedded: Embedded, function: str) -> None:
    client, outputs = acting_as(embedded, function, "secretsmanager"), embedded.stack.outputs

    ended = {name: outcome_of(client.get_secret_value, SecretId=outputs[name]) for name in SECRETS}

    assert ended == {name: "done" if reader == function else DENIED for name, reader in SECRETS.items()}


@each_function
def test_no_payout_role_starts_a_machine(embedded: Embedded, function: str) -> None:
    client, outputs = acting_as(embedded, function, "stepfunctions"), embedded.stack.outputs

    started = [
        outcome_of(client.start_execution, stateMachineArn=outputs[one], input="{}") for one in MACHINES
    ]
    woken = outcome_of(client.send_task_success, taskToken="x", output="{}")

    assert {*started, woken} == {DENIED}


@each_function
def test_payout_roles_invoke_follow_payouts_at_most(embedded: Embedded, function: str) -> None:
    client, names = acting_as(embedded, function, "lambda"), embedded.functions
    key = b'{"key": "no-such-payout-key"}'

    ended = {
        one: outcome_of(client.invoke, FunctionName=names[one], InvocationType="Event", Payload=key)
        for one in ("FollowPayouts", "ReservePayout", "TakeOrder", "RecoverStalled", "HoldFunds")
    }

    may = {"FollowPayouts"} if function == "ServePayouts" else set()
    assert {one for one, told in ended.items() if told != DENIED} == may, ended
