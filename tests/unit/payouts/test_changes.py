import json
import re
from dataclasses import replace
from typing import Any

import pytest

from settlement.core.ledger.keys import Row
from settlement.core.model.stored import MalformedRow
from settlement.events.changes import cloud_event
from settlement.payouts import moves
from settlement.payouts.changes import event
from settlement.payouts.moves import Move
from settlement.payouts.payout import State, Status
from tests.unit.contracts import PAYOUT_EVENT, SCHEMAS, faults
from tests.unit.payouts.rows import CASES, LINE, NOTES, PATHS, PAYOUT, STATES, on_the_way
from tests.unit.vectors import CONFIG
from tests.world.environment import NOW
from tests.world.templates import PROJECT

SCHEMA = SCHEMAS[PAYOUT_EVENT]
PAID: dict[str, Any] = SCHEMA["examples"][0]
TYPES = [status.lower() for status in Status]
DECIDED = {"verdict": "paid", "by": "canary", "approved_by": "canary", "case": "1"}
HELD, SENDING = STATES[Status.RESERVED], STATES[Status.SENDING]


def told(before: State | None, after: State) -> dict[str, Any]:
    made = event(before.to_row() if before else None, after.to_row(), CONFIG)
    assert made
    return cloud_event(made, source="settlement-under-test", time="2026-11-20T12:00:00.123Z")


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_each_move_makes_one_event_numbered_without_a_gap(path: tuple[Move, ...]) -> None:
    states = [on_the_way(*path[:count]) for count in range(len(path) + 1)]

    made = [told(before, after) for before, after in zip([None, *states], states, strict=False)]

    assert [one["type"] for one in made] == [f"payout.{state.status.lower()}" for state in states]
    assert [one["id"] for one in made] == [f"payout:{PAYOUT.key}:{at + 1}" for at in range(len(made))]
    assert [faults(PAYOUT_EVENT, one) for one in made] == [[]] * len(made)


@pytest.mark.parametrize("case", CASES)
def test_a_counted_case_or_line_makes_an_event(case: str) -> None:
    before = CASES[case]

    after = moves.counted(before, NOW, trouble="still open", debit_line=LINE)

    made = told(before, after)
    assert made["type"] == f"payout.{before.status.lower()}"
    assert made["data"]["case"].keys() == {"number", "trouble", "verdicts"}
    assert faults(PAYOUT_EVENT, made) == []


def test_a_note_makes_no_event() -> None:
    before = STATES[Status.ACCEPTED].to_row()

    assert event(before, before | {"detail": "http status 500", "said": "paid"}, CONFIG) is None


@pytest.mark.parametrize("state", [*STATES.values(), *CASES.values()], ids=lambda state: state.status)
def test_no_event_has_a_bank_account_or_a_person(state: State) -> None:
    after = replace(state, sequence=state.sequence + 1, decided=DECIDED)

    text = json.dumps(told(state, after))

    assert not [one for one in (state.iban, state.holder, after.digest, "canary") if one in text]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (HELD.to_row(), None, "the payout's row was deleted"),
        (None, SENDING.to_row(), "is SENDING after no row, and its sequence grows by 2"),
        (None, HELD.to_row() | {"sequence": 2}, "is RESERVED after no row, and its sequence grows by 2"),
        (HELD.to_row(), SENDING.to_row() | {"sequence": 1}, "after RESERVED, and its sequence grows by 0"),
        (HELD.to_row(), SENDING.to_row() | {"sequence": 4}, "after RESERVED, and its sequence grows by 3"),
        (SENDING.to_row(), HELD.to_row(), "is RESERVED after SENDING, and its sequence grows by -1"),
        (SENDING.to_row(), HELD.to_row() | {"sequence": 3}, "after SENDING, and its sequence grows by 1"),
        (HELD.to_row(), HELD.to_row() | {"status": "LOST"}, "status must be one of RESERVED, SENDING"),
        (HELD.to_row(), HELD.to_row() | {"amount": 1}, "request_hash is not that of its request"),
        (HELD.to_row(), {name: HELD.to_row()[name] for name in ("pk", "sk")}, "has no attribute 'account'"),
        (
            HELD.to_row(),
            replace(HELD, sequence=2, payout=replace(PAYOUT, amount=1)).to_row(),
            "is RESERVED after RESERVED, and its sequence grows by 1",
        ),
        (
            None,
            replace(HELD, payout=replace(PAYOUT, currency="XXX")).to_row(),
            "which the stage does not have",
        ),
    ],
)
def test_an_impossible_change_of_a_payout_is_malformed(old: Row | None, new: Row | None, reason: str) -> None:
    with pytest.raises(MalformedRow, match=re.escape(reason)):
        event(old, new, CONFIG)


def test_every_legal_move_makes_an_event() -> None:
    for move, rule in moves.RULES.items():
        for status in rule.money:
            before = STATES[status]
            assert told(before, moves.after(before, move, NOW, **NOTES.get(move, {})))


def test_the_contract_has_the_statuses_of_the_code() -> None:
    assert [*SCHEMA["$defs"]] == TYPES
    assert SCHEMA["properties"]["type"]["enum"] == [f"payout.{name}" for name in TYPES]
    assert SCHEMA["oneOf"] == [{"$ref": f"#/$defs/{name}"} for name in TYPES]
    assert SCHEMA["properties"]["data"]["properties"]["status"]["enum"] == [*Status]


def test_the_page_lists_the_types_of_the_contract() -> None:
    page = (PROJECT / "docs/calling/events.md").read_text()

    assert re.findall(r"^\| `payout\.(\w+)` \| (.+) \|$", page, flags=re.MULTILINE) == [
        (name, of["description"]) for name, of in SCHEMA["$defs"].items()
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"type": "payout.refused"},  # of a payout that is paid
        {"type": "settlement.paid"},
        {"type": "payout.lost"},
        {"id": "payout-2026-000101:4"},
        {"sequence": "0"},
        {"sequence": 4},
        {"time": "2026-11-20 12:00"},
        {"data": {}},
        {"data": {**PAID["data"], "debit_line": "one"}},
    ],
)
def test_the_contract_refuses_an_event_that_is_never_sent(change: dict[str, Any]) -> None:
    assert faults(PAYOUT_EVENT, PAID) == []

    assert faults(PAYOUT_EVENT, PAID | change)
