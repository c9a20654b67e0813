import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from settle.exit_codes import Exit
from settle.stack import Stack
from settlement.signing.signature import RowKeys
from tests.settle.conftest import Command
from tests.settle.desk import Desk

LAST = "NOT JUDGED: the signatures of the rows, which show who put them"


class Refusing:
    """Secrets Manager that denies the person the keys."""

    def get_secret_value(self, **_: Any) -> Any:
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "GetSecretValue")


def forge(desk: Desk) -> str:
    """Forge the evidence of an approval, consistent with the row."""
    desk.pay()
    row = next(row for row in desk.ledger.rows() if row["pk"].startswith("EVIDENCE#"))
    desk.ledger.put(row | {"reason": "checked"})
    return str(row["pk"])


def test_a_row_that_no_function_has_signed_is_named(desk: Desk, command: Command) -> None:
    forged = forge(desk)

    code, out, _ = command("reconcile", "--json")

    (fault,) = json.loads(out)["faults"]
    assert (code, fault.partition(": ")[0]) == (Exit.FAILED, forged)
    assert fault.endswith("its signature is not that of a function of this stage")


def test_a_row_to_which_an_attribute_was_added_is_named(desk: Desk, command: Command) -> None:
    desk.pay()
    row = next(row for row in desk.ledger.rows() if row["pk"].startswith("EVIDENCE#"))
    desk.ledger.put(row | {"no_function": "puts this"})

    code, out, _ = command("reconcile", "--json")

    (fault,) = json.loads(out)["faults"]
    assert (code, fault.partition(": ")[0]) == (Exit.FAILED, row["pk"])


def test_without_signatures_the_command_says_what_it_did_not_judge(desk: Desk, command: Command) -> None:
    forge(desk)

    code, out, _ = command("reconcile", "--no-signatures")

    assert (code, out.splitlines()[-2]) == (Exit.FINE, LAST)
    assert json.loads(command("reconcile", "--no-signatures", "--json")[1])["signatures"] is False


def test_a_denied_key_reader_is_told_what_to_do(desk: Desk, command: Command) -> None:
    desk.stack.clients["secretsmanager"] = Refusing()

    code, out, err = command("reconcile")

    assert (code, out) == (Exit.FAILED, "")
    assert "row keys: AccessDeniedException" in err
    assert "--no-signatures" in err
    assert command("reconcile", "--no-signatures")[0] == Exit.FINE


def test_a_stack_without_row_keys_must_be_deployed_again(desk: Desk, command: Command) -> None:
    del desk.stack.outputs["RowKeyArns"]

    code, out, err = command("reconcile")

    assert (code, out, err) == (
        Exit.NOT_FOUND,
        "",
        "settle: stack under-test: has no row keys yet; deploy it again\n",
    )


def test_the_keys_are_numbered_in_the_order_of_the_output() -> None:
    class Secrets:
        def get_secret_value(self, SecretId: str) -> Any:  # noqa: N803
            return {"SecretString": f"of-{SecretId}"}

    class Reached(Stack):
        def client(self, service: str, attempts: int = 5) -> Any:
            return Secrets()

    stack = Reached("x", {"RowKeyArns": "first second"}, session=None)

    assert stack.row_keys == RowKeys({"1": b"of-first", "2": b"of-second"})


@pytest.mark.parametrize("text", ["with a blank", ""])
def test_a_secret_that_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="row keys: must be numbers and keys"):
        RowKeys.from_text(f"1:{text}")
