from dataclasses import fields, replace
from typing import Any

import pytest

from settlement.core.ledger import entries
from settlement.core.ledger.keys import Row
from settlement.core.model import state as model_state
from settlement.core.model import stored
from settlement.core.model.settlement import FIELDS, OPTIONAL
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import AccountState, SettlementState
from settlement.core.model.status import REVERSIBLE, Status, Step
from settlement.core.model.stored import MalformedRow
from settlement.core.store import dynamodb
from settlement.core.store.wire import to_wire
from tests.unit import states
from tests.unit.vectors import IN_HASTE, ORDER, SETTLEMENT, VERDICT, slots
from tests.world.environment import NOW

FAILURE = {"step": "hold", "error": "E", "cause": "why"}
NAMED = replace(
    IN_HASTE, payer_name="Alice A.", payee_name="Bob B.", reference="R 1", metadata={"cart": "c-1"}
)
SLOTS = [*(step.slot for step in Step), *(step.reversal_slot for step in REVERSIBLE)]
FULL = states.row(
    NAMED,
    status=Status.LIMBO,
    **{name: f"the time in {name}" for name in SLOTS},
    escrow=4820,
    owner="the owner",
    owner_epoch=3,
    claimed_at="claimed",
    deadline_at="deadline",
    gsi1pk="LIMBO",
    gsi1sk="listed",
    in_flight_since="in flight",
    recover_at="recover",
    expired_at="expired",
    deadline_extended_at="extended",
    finished_at="finished",
    verdict="APPROVED",
    review="ref-1",
    failure=FAILURE,
    reversed_for={**FAILURE, "step": "verify"},
    stuck_step="compensate:hold",
    resolutions=6,
    resolution={"decision": "retry"},
    reversals_in_part=4,
    reversed_in_part=70,
    sequence=9,
    layout=2,
    checks={"limits"},
)

TIMES = {"opened_at": "then", "frozen_at": "later", "closed_at": "at last"}
ACCOUNT = states.account_row("alice", 5, limbo_cases=1, **TIMES)

REQUIRED = [
    *("pk", "status", "payer", "payee", "amount", "currency", "fee", "request_hash"),
    *("escrow", "owner", "owner_epoch", "claimed_at", "deadline_at"),
]
NOT_READ = {"sk", "gsi1pk"}
"""Attributes that only the table and its index need."""

DEFAULTS: dict[str, Any] = {
    field.name: field.default
    for field in fields(SettlementState)
    if field.name not in ("settlement", "steps", "reversed", *REQUIRED)
}
OF_EVERY_TYPE = (5, "text", {"L"}, ["L"], {"M": 1}, None)


def without(row: Row, name: str) -> Row:
    return {other: value for other, value in row.items() if other != name}


# A settlement


def test_every_attribute_is_read_from_the_row() -> None:
    state = SettlementState.from_row(FULL)
    read = {field.name: getattr(state, field.name) for field in fields(state)}

    assert read.pop("settlement") == NAMED
    assert read.pop("steps") == {step: f"the time in {step}_at" for step in Step}
    assert read.pop("reversed") == {step: f"the time in {step}_reversed_at" for step in REVERSIBLE}
    assert {column(name): value for name, value in read.items()} == {
        name: FULL[name] for name in FULL.keys() - NOT_READ - {"pk", *FIELDS, *SLOTS}
    }
    assert len({repr(value) for value in read.values()}) == len(read), "two of them may be exchanged"
    assert type(state.status) is Status


def column(field: str) -> str:
    return {"listed_at": "gsi1sk", "parts": "reversals_in_part"}.get(field, field)


def test_a_first_layout_row_reads_as_the_same_state() -> None:
    first = without(without(FULL, "reversals_in_part"), "layout") | {"parts": 4}

    assert SettlementState.from_row(first) == SettlementState.from_row(FULL)


@pytest.mark.parametrize("layout", [0, -1, 3])
def test_a_row_of_an_unknown_layout_is_refused(layout: int) -> None:
    with pytest.raises(MalformedRow, match=f": has layout {layout}, and this release reads up to 2$"):
        SettlementState.from_row(FULL | {"layout": layout})


@pytest.mark.parametrize("field", DEFAULTS)
def test_an_attribute_that_is_written_later_may_be_missing(field: str) -> None:
    state = SettlementState.from_row(without(FULL, column(field)))

    assert state == replace(SettlementState.from_row(FULL), **{field: DEFAULTS[field]})


@pytest.mark.parametrize("slot", SLOTS)
def test_a_missing_time_means_an_uncommitted_or_unreversed_step(slot: str) -> None:
    step, undone = Step(slot.partition("_")[0]), slot.endswith("_reversed_at")
    full = SettlementState.from_row(FULL)
    kept = {name: at for name, at in (full.reversed if undone else full.steps).items() if name != step}

    state = SettlementState.from_row(without(FULL, slot))

    assert state == (replace(full, reversed=kept) if undone else replace(full, steps=kept))


@pytest.mark.parametrize("name", OPTIONAL)
def test_an_optional_field_of_the_request_may_be_missing(name: str) -> None:
    missing: dict[str, Any] = {name: None}

    assert SettlementState.from_row(without(FULL, name)).settlement == replace(NAMED, **missing)


@pytest.mark.parametrize("name", REQUIRED)
def test_a_row_lacking_a_required_attribute_is_malformed(name: str) -> None:
    with pytest.raises(MalformedRow, match=f"^{without(FULL, name).get('pk')}: has no attribute '{name}'$"):
        SettlementState.from_row(without(FULL, name))


@pytest.mark.parametrize("status", ["UNKNOWN", "processing", ""])
def test_an_unknown_status_is_refused(status: str) -> None:
    with pytest.raises(ValueError, match=f"^{FULL['pk']}: .* is not a valid Status$") as refused:
        SettlementState.from_row(FULL | {"status": status})
    assert refused.type is MalformedRow


@pytest.mark.parametrize("name", sorted((FULL | ACCOUNT).keys() - NOT_READ))
def test_an_attribute_of_the_wrong_type_is_malformed(name: str) -> None:
    """Messages go into logs, causes and outcomes, so they name an account's row only as ACCOUNT."""
    of_account = name in ACCOUNT.keys() - FULL.keys()
    row, subject = (ACCOUNT, "ACCOUNT") if of_account else (FULL, FULL["pk"])
    kind = str if name == "status" else type(row[name])
    for value in OF_EVERY_TYPE:
        if not isinstance(value, kind):
            expected = f"{value if name == 'pk' else subject}: {name} is no {kind.__name__}"
            with pytest.raises(MalformedRow) as refused:
                (AccountState if of_account else SettlementState).from_row(row | {name: value})
            assert str(refused.value) == expected


@pytest.mark.parametrize("value", [5, None, {"S": "c-1"}, {"c-1"}, ["c-1"]], ids=repr)
def test_metadata_with_a_member_that_is_not_text_is_refused(value: object) -> None:
    """Outcomes and events carry metadata, which must be JSON."""
    with pytest.raises(MalformedRow, match=f"^{FULL['pk']}: metadata has a member that is no str$"):
        SettlementState.from_row(FULL | {"metadata": {"shop": "web", "cart": value}})


@pytest.mark.parametrize("value", [*OF_EVERY_TYPE, 1.5, b"bytes", True], ids=repr)
def test_an_unknown_attribute_of_any_type_is_ignored(value: object) -> None:
    """A later release or an operator may add one: the row must stay readable."""
    assert SettlementState.from_row(FULL | {"unheard_of": value, "gsi1pk": value}) == (
        SettlementState.from_row(FULL)
    )
    assert AccountState.from_row(ACCOUNT | {"unheard_of": value}) == AccountState.from_row(ACCOUNT)


class Recorded(dict[str, Any]):
    def __init__(self, row: Row) -> None:
        super().__init__(row)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return super().get(name, default)


def test_exactly_the_attributes_that_are_read_have_checked_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attribute without a type would pass unchecked; a type without a reader would refuse good rows."""
    monkeypatch.setattr(model_state, "sound", lambda row: row)
    settlement, account = Recorded(FULL), Recorded(ACCOUNT)

    SettlementState.from_row(settlement)
    AccountState.from_row(account)

    assert settlement.read | account.read | {"parts"} == stored.STATE_TYPES.keys()
    assert settlement.read == FULL.keys() - NOT_READ
    assert account.read == ACCOUNT.keys() - NOT_READ


# Its questions


@pytest.mark.parametrize("committed", range(len(Step) + 1))
def test_a_settlement_is_released_once_its_release_has_committed(committed: int) -> None:
    assert states.state(**slots(list(Step)[:committed])).is_released is (committed >= 3)


def test_review_and_expiry_are_read_from_their_attributes() -> None:
    assert states.state(review=VERDICT.reference).is_in_review is True
    assert states.state(verdict="APPROVED").is_in_review is False
    assert states.state(expired_at="then").is_expired is True
    assert states.state(deadline_at="2000-01-01T00:00:00.000Z").is_expired is False
    assert states.state().key == SETTLEMENT.key


@pytest.mark.parametrize(
    ("resolutions", "number"), [({}, 1), ({"resolutions": 0}, 1), ({"resolutions": 2}, 3)]
)
def test_a_cases_number_is_one_more_than_the_closed_cases(resolutions: dict[str, Any], number: int) -> None:
    assert states.state(**resolutions).case_number == number


@pytest.mark.parametrize(
    ("steps", "reversed_", "unreversed"),
    [
        ((), (), []),
        (("hold",), (), ["hold"]),
        (("hold", "verify"), (), ["hold"]),
        (("hold", "verify", "release"), ("release",), ["hold"]),
        (tuple(Step), (), ["fee", "release", "hold"]),
        (tuple(Step), ("fee",), ["release", "hold"]),
        (tuple(Step), ("release",), ["fee", "hold"]),
        (tuple(Step), ("fee", "release", "hold"), []),
    ],
)
def test_unreversed_lists_the_committed_money_steps_not_yet_reversed(
    steps: tuple[str, ...], reversed_: tuple[str, ...], unreversed: list[str]
) -> None:
    assert states.state(**slots(steps, reversed_)).unreversed == unreversed


def test_requests_with_equal_hashes_are_the_same_request() -> None:
    assert states.state(amount=1).same_request(SETTLEMENT) is True
    assert states.state(request_hash="another").same_request(SETTLEMENT) is False


# An account


def test_an_account_is_read_from_its_row() -> None:
    assert AccountState.from_row(ACCOUNT) == AccountState(
        account="alice", available=5, currency="EUR", limbo_cases=1, **TIMES
    )
    assert AccountState.from_row(ACCOUNT).is_blocked is True
    assert AccountState.from_row(without(ACCOUNT, "limbo_cases")).is_blocked is False


@pytest.mark.parametrize(("name", "question"), [("frozen_at", "is_frozen"), ("closed_at", "is_closed")])
def test_an_attribute_marks_an_account_as_frozen_or_closed(name: str, question: str) -> None:
    assert getattr(AccountState.from_row(ACCOUNT), question) is True
    assert getattr(AccountState.from_row(without(ACCOUNT, name)), question) is False


def test_an_accounts_rendered_state_has_only_the_times_set(config: StageConfig) -> None:
    state = AccountState.from_row(without(ACCOUNT, "frozen_at"))

    assert state.to_wire(config) == {
        "account": "alice",
        "currency": "EUR",
        "available": "0.05",
        "in_limbo": True,
        "opened_at": "then",
        "closed_at": "at last",
    }


@pytest.mark.parametrize(
    ("name", "subject"), [("pk", "None"), ("available", "ACCOUNT"), ("currency", "ACCOUNT")]
)
def test_an_account_lacking_a_required_attribute_is_malformed(name: str, subject: str) -> None:
    with pytest.raises(MalformedRow, match=f"^{subject}: has no attribute '{name}'$"):
        AccountState.from_row(without(ACCOUNT, name))


def test_a_name_in_a_key_may_contain_the_separator() -> None:
    assert SettlementState.from_row(FULL | {"pk": "SETTLEMENT#a#b"}).key == "a#b"
    assert AccountState.from_row(ACCOUNT | {"pk": "ACCOUNT#a#b"}).account == "a#b"


# The helper of these tests


@pytest.mark.parametrize(
    "row",
    [None, FULL, ACCOUNT, entries.evidence(SETTLEMENT, "reverse", ORDER.record(), NOW).parameters["Item"]],
    ids=["no row", "settlement", "account", "entry"],
)
def test_tests_and_store_parse_a_conflicting_row_identically(row: Row | None) -> None:
    assert states.found(row) == dynamodb._state(to_wire(row) if row else None)
