import json
from typing import Any

from infra.preflight.guard import faults
from tests.infra.stack import FUNCTIONS, changed, changed_template, readable, template
from tests.world import templates

NAME, LABEL = "settlement-prod-restored", "2026-11-23T06:00:00.000"
ARN = f"arn:${{AWS::Partition}}:dynamodb:${{AWS::Region}}:${{AWS::AccountId}}:table/{NAME}"
OWN = "LedgerTable"


RESTORED = {"restored_table": NAME, "restored_stream": LABEL}


def restored() -> dict[str, Any]:
    return changed(**RESTORED)


def test_a_restored_stage_never_refers_to_its_original_table() -> None:
    pointing = [one for one, found in restored().items() if f"${{{OWN}" in json.dumps(found) and one != OWN]

    assert pointing == []
    assert f"${{{OWN}" in json.dumps(template("prod"))
    assert readable(changed_template(**RESTORED)["Outputs"]["TableName"]["Value"]) == NAME


def test_the_stacks_own_table_and_key_stay_unchanged() -> None:
    """A restore and its end then neither make nor delete a table, and the guard accepts both."""
    deployed, after = templates.template("prod"), changed_template(**RESTORED)

    for one in (OWN, "LedgerKey"):
        assert restored()[one] == template("prod")[one]
    assert list(faults(deployed, after)) == []
    assert list(faults(after, deployed)) == []


def test_each_function_settles_on_the_restored_table() -> None:
    for one in FUNCTIONS:
        assert restored()[one]["Properties"]["Environment"]["Variables"]["TABLE_NAME"] == NAME


def test_the_stream_readers_read_the_restored_tables_stream() -> None:
    def streams(found: Any) -> list[str]:
        arns = (one["Properties"]["EventSourceArn"] for one in found.values() if "Mapping" in one["Type"])
        return [arn for arn in arns if "dynamodb" in arn or "StreamArn" in arn]

    assert set(streams(restored())) == {f"{ARN}/stream/{LABEL}"}
    assert len(streams(restored())) == len(streams(template("prod"))) > 0


def test_each_role_has_the_same_rights_on_the_restored_table() -> None:
    """The key stays the same, because rows are restored under their table's key."""
    of_the_own = {
        f"${{{OWN}.StreamArn}}": f"{ARN}/stream/{LABEL}",
        f"${{{OWN}.Arn}}": ARN,
        f"${{{OWN}}}": NAME,
    }

    for one, found in template("prod").items():
        if found["Type"] not in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
            continue
        wanted = json.dumps(found)
        for own, other in of_the_own.items():
            wanted = wanted.replace(own, other)
        assert restored()[one] == json.loads(wanted)
