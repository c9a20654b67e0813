import json
from types import SimpleNamespace

import pytest

from settle.exit_codes import Exit
from settle.stack import Stack
from settlement.signing.signature import RowKeys
from tests.settle.conftest import Command, raising
from tests.settle.desk import Desk
from tests.world.step_functions import client_error

LAST = "NOT JUDGED: the signatures of the rows, which show who put them"


def forge(desk: Desk, **attributes: str) -> str:
    """Forge the evidence of an approval, consistent with the row."""
    desk.pay()
    row = next(row for row in desk.ledger.rows() if row["pk"].startswith("EVIDENCE#"))
    desk.ledger.put(row | attributes)
    return str(row["pk"])


@pytest.mark.parametrize("attributes", [{"reason": "checked"}, {"no_function": "puts this"}], ids=str)
def test_the_proof_names_a_row_without_a_valid_signature(
    desk: Desk, command: Command, attributes: dict[str, str]
) -> None:
    forged = forge(desk, **attributes)

    code, out, _ = command("reconcile", "--json")

    (fault,) = json.loads(out)["faults"]
    assert (code, fault.partition(": ")[0]) == (Exit.FAILED, forged)
    assert fault.endswith("its signature is not that of a function of this stage")


def test_without_signature_checks_the_command_says_they_were_skipped(desk: Desk, command: Command) -> None:
    forge(desk, reason="checked")

    code, out, _ = command("reconcile", "--no-signatures")

    assert (code, out.splitlines()[-2]) == (Exit.FINE, LAST)
    assert json.loads(command("reconcile", "--no-signatures", "--json")[1])["signatures"] is False


def test_a_person_denied_the_row_keys_gets_advice(desk: Desk, command: Command) -> None:
    denied = raising(client_error("GetSecretValue", "AccessDeniedException"))
    desk.stack.clients["secretsmanager"] = SimpleNamespace(get_secret_value=denied)

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
        "settle: stack: has no output RowKeyArns: it is too old, or leaves out what brings it;"
        " deploy it again\n",
    )


def test_row_keys_are_numbered_in_the_order_of_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = SimpleNamespace(get_secret_value=lambda **asked: {"SecretString": f"of-{asked['SecretId']}"})
    monkeypatch.setattr(Stack, "client", lambda stack, service: secrets)

    assert Stack("x", {"RowKeyArns": "first second"}, None).row_keys == RowKeys(
        {"1": b"of-first", "2": b"of-second"}
    )
