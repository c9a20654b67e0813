import pytest

from settlement.core.model.stored import MalformedRow, Stored, sound


def test_a_missing_attribute_is_reported_with_the_rows_name() -> None:
    with pytest.raises(MalformedRow, match=r"^EVIDENCE#k: has no attribute 'by'$"):
        Stored({"pk": "EVIDENCE#k"})["by"]


@pytest.mark.parametrize("kind", ["ACCOUNT", "ENTRIES", "SWEPT"])
def test_a_message_about_a_malformed_row_names_no_account(kind: str) -> None:
    with pytest.raises(MalformedRow, match=f"^{kind}: amount is no int$"):
        sound({"pk": f"{kind}#alice", "amount": "5"})


@pytest.mark.parametrize("row", [{"amount": True}, {"persons": {1}}, {"folded": {"00": "5"}}, {"by": 7}])
def test_an_attribute_of_another_type_is_refused(row: dict[str, object]) -> None:
    with pytest.raises(MalformedRow):
        sound({"pk": "ORDER#k", **row})


def test_the_times_of_the_circuits_row_may_be_numbers() -> None:
    row = {"pk": "CIRCUIT", "opened_at": 5}

    assert sound(row) == row
