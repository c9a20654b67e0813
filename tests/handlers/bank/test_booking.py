"""One person proposes deposits for the lines of a bank's statement, another books each line once."""

from typing import Any

import pytest

from settlement.bank.booking import LINES_MAX
from settlement.bank.statement import Side
from settlement.core.ledger import keys
from settlement.core.model.errors import (
    IdempotencyConflict,
    InvalidRequest,
    ProposalRefused,
    RowDamaged,
    StoreUnavailable,
)
from tests.handlers.accounts.test_take_account_order import DEPOSIT
from tests.handlers.bank.test_read_statements import bank, day, matched, of_bank, paid, put, read
from tests.handlers.conftest import Calls
from tests.world.books import assert_conserved
from tests.world.memory_s3 import MemoryS3

__all__ = ["bank"]

ADA, GRACE = (f"arn:aws:iam::123456789012:user/{name}" for name in ("ada", "grace"))
KEY = "bank-of-the-day-0001"


@pytest.fixture
def lines(calls: Calls, bank: MemoryS3) -> list[str]:
    """Identities of two bank lines without an order."""
    others = [paid("ACC-alice", "7.00"), paid("ACC-alice too", "0.30")]
    put(bank, day(paid(), *others))
    read()
    alone = {pk for pk, sk in of_bank(calls) if sk == "LINE"} - {
        pk for pk, sk in of_bank(calls) if sk == "MATCH"
    }
    return sorted(pk.partition("#")[2] for pk in alone)


def propose(calls: Calls, lines: Any, by: str = ADA) -> dict[str, Any]:
    order = {"key": KEY, "lines": lines, "reason": "top-ups", "by": by}
    return calls.order("propose-lines", order)


def of_alice(lines: list[str]) -> dict[str, str]:
    return dict.fromkeys(lines, "alice")


def book(calls: Calls, digest: str, by: str = GRACE) -> dict[str, Any]:
    return calls.order("book-lines", {"key": KEY, "digest": digest, "by": by})


def test_a_second_person_books_the_proposed_lines_once(calls: Calls, lines: list[str]) -> None:
    proposed = propose(calls, of_alice(lines))
    assert propose(calls, of_alice(lines)) == proposed
    assert calls.account("alice")["available"] == 48_20

    booked = book(calls, proposed["digest"])
    again = book(calls, proposed["digest"], "arn:aws:iam::123456789012:user/olga")

    assert again == booked
    assert [one["line"] for one in booked["booked"]] == lines
    assert booked["refused"] == []
    assert calls.account("alice")["available"] == 48_20 + 7_30
    assert matched(calls).keys() == {DEPOSIT["key"], *(one["order"] for one in booked["booked"])}
    assert_conserved(calls.ledger.rows())


def test_a_line_without_a_printable_reference_is_not_booked(calls: Calls, bank: MemoryS3) -> None:
    put(bank, day(paid("", bank_reference=None), paid("in\u200bvisible", "0.30", bank_reference=None)))
    read()
    own = [pk.partition("#")[2] for pk, sk in of_bank(calls) if sk == "LINE"]

    told = book(calls, propose(calls, of_alice(own))["digest"])

    assert told["booked"] == []
    assert {one["message"] for one in told["refused"]} == {"line: has no reference that can be printed"}


@pytest.mark.parametrize("dies_at", range(3))
def test_a_booking_that_dies_can_be_repeated(calls: Calls, lines: list[str], dies_at: int) -> None:
    digest = propose(calls, of_alice(lines))["digest"]
    with calls.dies_at_write(dies_at), pytest.raises(StoreUnavailable):
        book(calls, digest)

    assert len(book(calls, digest)["booked"]) == 2
    assert calls.account("alice")["available"] == 48_20 + 7_30
    assert_conserved(calls.ledger.rows())


def test_the_proposer_cannot_book_their_own_proposal(calls: Calls, lines: list[str]) -> None:
    digest = propose(calls, of_alice(lines))["digest"]

    with calls.writes_nothing(), pytest.raises(ProposalRefused, match=r"^by: "):
        book(calls, digest, "arn:aws:iam::123456789012:user/ADA")


def test_booking_with_another_digest_than_the_proposals_is_refused(calls: Calls, lines: list[str]) -> None:
    propose(calls, of_alice(lines))

    with calls.writes_nothing(), pytest.raises(ProposalRefused, match=r"^digest: "):
        book(calls, "0" * 64)


def test_a_proposal_never_changes(calls: Calls, lines: list[str]) -> None:
    propose(calls, of_alice(lines))

    for changed in (({lines[0]: "alice"}, ADA), (of_alice(lines), GRACE)):
        with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
            propose(calls, *changed)


def test_booking_without_a_proposal_is_refused(calls: Calls, lines: list[str]) -> None:
    with calls.writes_nothing(), pytest.raises(ProposalRefused, match=r"^key: "):
        book(calls, "0" * 64)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        [],
        {"x": "alice"},
        {"0" * 64: "a b"},
        {"0" * 64: 7},
        {f"{number:064x}": "alice" for number in range(LINES_MAX + 1)},
    ],
    ids=["none", "list", "identity", "account", "number", "many"],
)
def test_a_proposal_with_invalid_lines_is_refused(calls: Calls, lines: list[str], wrong: Any) -> None:
    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=r"^lines: "):
        propose(calls, wrong)


def test_an_unbookable_line_does_not_stop_the_other_lines(calls: Calls, lines: list[str]) -> None:
    unknown = "f" * 64
    told = {lines[0]: "nobody", lines[1]: "alice", unknown: "alice"}
    digest = propose(calls, told)["digest"]

    found = book(calls, digest)

    assert [one["line"] for one in found["booked"]] == [lines[1]]
    assert {one["line"]: one["error"] for one in found["refused"]} == {
        lines[0]: "AccountNotFound",
        unknown: "ProposalRefused",
    }


def test_a_line_already_matched_to_another_order_is_not_booked(
    calls: Calls, lines: list[str], bank: MemoryS3
) -> None:
    digest = propose(calls, of_alice(lines))["digest"]
    by_hand = DEPOSIT | {"key": "by-hand-account-0001", "amount": "7.00", "reference": "ACC-alice"}
    calls.administer(by_hand)
    read(match=True)

    found = book(calls, digest)

    assert (len(found["booked"]), len(found["refused"])) == (1, 1)
    assert "by-hand-account-0001" in found["refused"][0]["message"]
    assert calls.account("alice")["available"] == 48_20 + 7_00 + 30


def test_a_line_of_outgoing_money_is_not_booked_as_deposit(calls: Calls, bank: MemoryS3) -> None:
    put(bank, day(paid("left", "7.00", side=Side.OUT), opening="10.00"))
    read()
    (line,) = (pk.partition("#")[2] for pk, sk in of_bank(calls) if sk == "LINE")

    found = book(calls, propose(calls, of_alice([line]))["digest"])

    assert found["booked"] == []


@pytest.mark.parametrize("spoilt", [{"digest": "0" * 64}, {"lines": "all"}, {"by": 7}], ids=str)
def test_a_damaged_proposal_row_books_nothing(calls: Calls, lines: list[str], spoilt: dict[str, Any]) -> None:
    digest = propose(calls, of_alice(lines))["digest"]
    row = calls.ledger.row(keys.bank_proposed(KEY))
    assert row
    calls.ledger.put({**row, **spoilt})

    with calls.writes_nothing(), pytest.raises(RowDamaged):
        book(calls, digest)
