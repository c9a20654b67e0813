import re
from dataclasses import replace
from typing import Any

import pytest

from settlement.core.model.stored import MalformedRow
from settlement.payouts.iban import is_iban
from settlement.payouts.payout import State, Status, reference_of
from tests.unit.payouts.rows import CASES, PAYOUT, STATES

ACCEPTED, LIMBO = STATES[Status.ACCEPTED].to_row(), STATES[Status.LIMBO].to_row()
FULL = {
    **STATES[Status.CONFIRMED].to_row(),
    **{"gsi1sk": "2026-11-20T12:00:00.123Z", "trouble": "t", "return_line": "7e" * 32},
    **{"decided": {"verdict": "paid", "case": "1"}, "detail": "r"},
    **{"asked_from": "2026-11-20T12:00:00.123Z"},
}
OF_WRONG_TYPES: tuple[Any, ...] = (None, 1, b"", True, "", {}, {"a"}, "2026-11-20", "x" * 500)


@pytest.mark.parametrize("status", Status)
def test_a_row_is_read_as_it_was_written(status: Status) -> None:
    state = STATES[status]

    assert State.from_row(state.to_row()) == state


def test_a_full_row_is_read() -> None:
    assert State.from_row(FULL).decided == {"verdict": "paid", "case": "1"}


@pytest.mark.parametrize(
    "name",
    [
        *("account", "amount", "currency", "destination", "request_hash", "reference"),
        *("iban", "holder", "status", "sequence", "reserved_at", "first_sent_at", "sent_at", "sent_sha256"),
        *("said", "said_at", "attempts"),
    ],
)
def test_a_row_without_a_needed_value_is_malformed(name: str) -> None:
    with pytest.raises(MalformedRow, match=rf"^PAYOUT#{PAYOUT.key}: "):
        State.from_row({key: value for key, value in ACCEPTED.items() if key != name})


@pytest.mark.parametrize("name", sorted(FULL.keys() - {"pk", "sk", "gsi1pk"}))
@pytest.mark.parametrize("wrong", OF_WRONG_TYPES, ids=repr)
def test_a_wrong_value_is_malformed(name: str, wrong: Any) -> None:
    is_right = (
        (isinstance(wrong, str) and name in ("detail", "trouble"))
        or (name == "holder" and wrong == "2026-11-20")
        or (wrong == 1 and type(wrong) is int and name in ("sequence", "attempts", "cases"))
    )
    if is_right:
        State.from_row(FULL | {name: wrong})
    else:
        with pytest.raises(MalformedRow):
            State.from_row(FULL | {name: wrong})


@pytest.mark.parametrize(
    "changed",
    [
        {"amount": 0},
        {"amount": -1},
        {"amount": PAYOUT.amount + 1},
        {"account": "mallory"},
        {"account": "fees:EUR"},
        {"destination": "another"},
        {"iban": "DE89370400440532013001"},
        {"iban": "de89370400440532013000"},
        {"holder": " Ada"},
        {"holder": "Ada\nExample"},
        {"status": "DONE"},
        {"said": "perhaps"},
        {"sequence": 0},
        {"attempts": 0},
        {"reserved_at": "2026-11-31T12:00:00.123Z"},
        {"reserved_at": "2026-11-30T12:00:00Z"},
        {"sent_at": "2026-11-20T25:00:00.123Z"},
        {"sent_sha256": "5C" * 32},
        {"reference": reference_of("payout-2026-000102")},
        {"pk": "PAYOUT#payout-2026-000102"},
        {"pk": "PAYOUT#short"},
        {"status": "CONFIRMED"},
        {"decided": {"verdict": 1, "case": "1"}},
        {"decided": {"verdict": "paid"}},
        {"decided": {"case": "1"}},
        {"in_suspense": 1},
    ],
    ids=str,
)
def test_a_row_that_says_something_impossible_is_malformed(changed: dict[str, Any]) -> None:
    with pytest.raises(MalformedRow):
        State.from_row(ACCEPTED | changed)


@pytest.mark.parametrize("status", ["SENDING", "ACCEPTED", "PAID", "RETURNED"])
def test_a_sent_status_without_a_recorded_send_is_malformed(status: str) -> None:
    with pytest.raises(MalformedRow, match="nothing was sent"):
        State.from_row(STATES[Status.RESERVED].to_row() | {"status": status})


def test_a_reference_depends_only_on_the_key() -> None:
    reference = replace(PAYOUT, amount=1).reference

    assert reference == PAYOUT.reference == "4VWYFXI34ASPVOYR3QW6GE23P3BVLFJU"
    assert re.fullmatch("[A-Z2-7]{32}", reference)
    assert reference_of("payout-2026-000102") != reference


def test_no_log_line_has_an_iban() -> None:
    assert STATES[Status.PAID].iban not in repr(STATES[Status.PAID])


def test_the_digest_covers_everything_that_a_person_is_shown() -> None:
    state = STATES[Status.LIMBO]

    assert State.from_row(LIMBO | {"sequence": 9}).digest == state.digest
    for changed in ({"detail": "other"}, {"cases": 2}, {"said": "paid", "said_at": state.sent_at}):
        assert State.from_row(LIMBO | changed).digest != state.digest


@pytest.mark.parametrize("wrong", [0, 2, True, "1", None], ids=repr)
def test_a_suspense_mark_other_than_one_is_malformed(wrong: Any) -> None:
    row = CASES["suspense"].to_row()

    assert State.from_row(row) == CASES["suspense"]
    with pytest.raises(MalformedRow):
        State.from_row(row | {"in_suspense": wrong})


def test_a_payout_is_closed_only_by_its_last_cases_verdict() -> None:
    closed = replace(STATES[Status.PAID], cases=2, decided={"verdict": "close", "case": "2"})

    assert closed.is_closed
    assert closed.is_at_rest
    assert not replace(closed, cases=3).is_at_rest
    assert not replace(closed, decided={"verdict": "ask", "case": "2"}).is_at_rest
    assert not replace(closed, decided=None).is_at_rest


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("DE89370400440532013000", True),
        ("GB29NWBK60161331926819", True),
        ("NO9386011117947", True),
        ("DE89370400440532013001", False),
        ("DE98370400440532013000", False),
        ("DE00370400440532013000", False),
        ("DE89 3704 0044 0532 0130 00", False),
        ("D", False),
        (89, False),
        (None, False),
        ("DE8937040044053201300\u0660", False),
    ],
)
def test_an_iban_must_have_valid_form_and_check_digits(text: object, right: bool) -> None:
    assert is_iban(text) is right
