"""The states of a settlement and of an account: each attribute is read from the row, and checked."""

from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from settlement.adapters import dynamodb
from settlement.ledger import entries
from settlement.ledger.keys import Row
from settlement.model import state as model_state
from settlement.model.settlement import FIELDS
from settlement.model.state import AccountState, MalformedRow, SettlementState
from settlement.model.status import Status, Step
from tests.conftest import NOW
from tests.support import wire
from tests.unit import states
from tests.unit.vectors import IN_HASTE, ORDER, SETTLEMENT, VERDICT

FAILURE = {"step": "hold", "error": "E", "cause": "why"}
NAMED = replace(IN_HASTE, payer_name="Alice A.", payee_name="Bob B.")
FULL = states.row(
    NAMED,
    status=Status.LIMBO,
    steps={"hold", "verify"},
    reversed={"hold"},
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
    finished_at="finished",
    verdict="APPROVED",
    review="ref-1",
    failure=FAILURE,
    reversed_for={**FAILURE, "step": "verify"},
    stuck_step="compensate:hold",
    resolutions=2,
    resolution={"decision": "retry"},
    waiting={"token": "t", "execution": "e"},
)
"""A row with every attribute of a settlement, each with its own value."""

READ = SettlementState(
    settlement=NAMED,
    request_hash=NAMED.request_hash,
    status=Status.LIMBO,
    steps=frozenset({"hold", "verify"}),
    reversed=frozenset({"hold"}),
    escrow=4820,
    owner="the owner",
    owner_epoch=3,
    claimed_at="claimed",
    deadline_at="deadline",
    listed_at="listed",
    in_flight_since="in flight",
    recover_at="recover",
    expired_at="expired",
    finished_at="finished",
    verdict="APPROVED",
    review="ref-1",
    failure=FAILURE,
    reversed_for={**FAILURE, "step": "verify"},
    stuck_step="compensate:hold",
    resolutions=2,
    resolution={"decision": "retry"},
    waiting={"token": "t", "execution": "e"},
)
REQUIRED = [
    *("pk", "status", "payer", "payee", "amount", "currency", "fee", "request_hash"),
    *("escrow", "owner", "owner_epoch", "claimed_at", "deadline_at"),
]
OPTIONAL = [name for name in FULL if name not in (*REQUIRED, "sk", "gsi1pk")]
RENAMED = {"gsi1sk": "listed_at"}


NOT_READ = {"sk", "gsi1pk"}
"""The attributes of a row that only the table and its index need."""

ACCOUNT = states.account_row("alice", 5, limbo_keys={"k1"})
"""An account's row with every attribute."""

OF_EVERY_TYPE = (5, "text", {"L"}, ["L"], {"M": 1})
TYPE_NAMES = {name: type(value).__name__ for name, value in (FULL | ACCOUNT).items()} | {"status": "str"}


def without(row: Row, name: str) -> Row:
    return {other: value for other, value in row.items() if other != name}


# A settlement


def test_every_attribute_is_read_from_the_row() -> None:
    assert SettlementState.from_row(FULL) == READ
    assert type(READ.status) is Status


def test_every_attribute_has_its_own_value_here() -> None:
    """Otherwise the test above would not notice that two of them are exchanged."""
    values = [repr(getattr(READ, field.name)) for field in fields(SettlementState)]

    assert len(set(values)) == len(values)


@pytest.mark.parametrize("name", OPTIONAL)
def test_an_attribute_that_comes_later_may_be_missing(name: str) -> None:
    state = SettlementState.from_row(without(FULL, name))

    if name in FIELDS:
        assert state == replace(READ, settlement=replace(NAMED, **{name: None}))
    else:
        field = RENAMED.get(name, name)
        (default,) = (each.default for each in fields(SettlementState) if each.name == field)
        assert state == replace(READ, **{field: default})


@pytest.mark.parametrize("name", REQUIRED)
def test_an_attribute_of_every_row_must_not_be_missing(name: str) -> None:
    with pytest.raises(MalformedRow, match=f"^{without(FULL, name).get('pk')}: has no attribute '{name}'$"):
        SettlementState.from_row(without(FULL, name))


def test_a_fresh_claim_has_nothing_committed_and_no_case() -> None:
    state = states.state()

    assert (state.steps, state.reversed, state.resolutions) == (frozenset(), frozenset(), 0)
    assert {getattr(state, name) for name in ("verdict", "review", "failure", "stuck_step", "waiting")} == {
        None
    }


@pytest.mark.parametrize("status", ["UNKNOWN", "processing", ""])
def test_an_unknown_status_is_refused(status: object) -> None:
    with pytest.raises(MalformedRow, match=f"^{FULL['pk']}: .* is not a valid Status$"):
        SettlementState.from_row(FULL | {"status": status})


@pytest.mark.parametrize("name", sorted(FULL.keys() - NOT_READ - {"pk"}))
def test_an_attribute_of_another_type_is_refused(name: str) -> None:
    for value in (*OF_EVERY_TYPE, None):
        if not isinstance(value, type(FULL[name])) and not isinstance(FULL[name], type(value)):
            with pytest.raises(MalformedRow, match=f"^{FULL['pk']}: {name} is no {TYPE_NAMES[name]}$"):
                SettlementState.from_row(FULL | {name: value})


@pytest.mark.parametrize("name", ["available", "currency", "limbo_keys"])
def test_an_attribute_of_an_account_of_another_type_is_refused(name: str) -> None:
    for value in (*OF_EVERY_TYPE, None):
        if not isinstance(value, type(ACCOUNT[name])):
            with pytest.raises(MalformedRow, match=f"^ACCOUNT: {name} is no {TYPE_NAMES[name]}$"):
                AccountState.from_row(ACCOUNT | {name: value})


@pytest.mark.parametrize("value", [5, ["SETTLEMENT#"], None])
def test_a_key_of_another_type_is_refused(value: object) -> None:
    for read in (SettlementState.from_row, AccountState.from_row):
        with pytest.raises(MalformedRow, match=r": pk is no str$"):
            read(FULL | {"pk": value})


@pytest.mark.parametrize("value", [*OF_EVERY_TYPE, None, 1.5, b"bytes", True], ids=repr)
def test_an_unknown_attribute_of_any_type_is_ignored(value: object) -> None:
    """A later release may add one, or an operator: the row must not become unreadable by it."""
    assert SettlementState.from_row(FULL | {"unheard_of": value, "gsi1pk": value}) == READ
    assert AccountState.from_row(ACCOUNT | {"unheard_of": value}) == AccountState.from_row(ACCOUNT)


class Recorded(dict[str, Any]):
    """A row that records the attributes that are read from it."""

    def __init__(self, row: Row) -> None:
        super().__init__(row)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return super().get(name, default)


def test_the_types_of_exactly_the_attributes_that_are_read_are_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An attribute without a type would pass unchecked; a type without a reader would refuse good rows."""
    monkeypatch.setattr(model_state, "_check_types", lambda row: None)
    settlement, account = Recorded(FULL), Recorded(ACCOUNT)

    SettlementState.from_row(settlement)
    AccountState.from_row(account)

    assert settlement.read | account.read == model_state._TYPES.keys()
    assert settlement.read == FULL.keys() - NOT_READ
    assert account.read == ACCOUNT.keys() - NOT_READ


@pytest.mark.parametrize("change", [{"available": "5"}, {"currency": 978}, {"limbo_keys": ["k"]}])
def test_a_message_about_an_account_does_not_name_it(change: Row) -> None:
    """Messages go into logs, causes and outcomes, where only the account's kind belongs."""
    with pytest.raises(MalformedRow, match=r"^ACCOUNT: ") as refused:
        AccountState.from_row(ACCOUNT | change)

    assert "alice" not in str(refused.value)


def test_a_malformed_row_is_a_value_error() -> None:
    assert issubclass(MalformedRow, ValueError)


def test_a_state_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        READ.status = Status.SETTLED  # type: ignore[misc]


# Its questions


def test_a_state_has_the_key_of_its_settlement() -> None:
    assert states.state().key == SETTLEMENT.key


@pytest.mark.parametrize("committed", range(len(Step) + 1))
def test_a_settlement_is_released_once_its_release_has_committed(committed: int) -> None:
    steps = set(list(Step)[:committed])

    assert states.state(steps=steps).is_released is (committed >= 3)


def test_a_settlement_is_in_review_while_it_waits_for_its_verdict() -> None:
    assert states.state(review=VERDICT.reference).is_in_review is True
    assert states.state(verdict="APPROVED").is_in_review is False


def test_a_settlement_is_expired_once_recovery_has_ordered_its_reversal() -> None:
    assert states.state(expired_at="then").is_expired is True
    assert states.state(deadline_at="2000-01-01T00:00:00.000Z").is_expired is False


@pytest.mark.parametrize(
    ("resolutions", "number"), [({}, 1), ({"resolutions": 0}, 1), ({"resolutions": 2}, 3)]
)
def test_the_number_of_a_case_counts_the_closed_ones(resolutions: dict[str, int], number: int) -> None:
    assert states.state(**resolutions).case_number == number


@pytest.mark.parametrize(
    ("steps", "reversed_", "unreversed"),
    [
        ((), (), []),
        (("hold",), (), [Step.HOLD]),
        (("hold", "verify"), (), [Step.HOLD]),
        (tuple(Step), (), [Step.FEE, Step.RELEASE, Step.HOLD]),
        (tuple(Step), ("release",), [Step.FEE, Step.HOLD]),
        (tuple(Step), ("fee", "release", "hold"), []),
        ((), ("hold",), []),
    ],
)
def test_the_unreversed_steps_are_those_that_moved_money_in_the_order_of_their_reversal(
    steps: tuple[str, ...], reversed_: tuple[str, ...], unreversed: list[Step]
) -> None:
    assert states.state(steps=set(steps), reversed=set(reversed_)).unreversed == unreversed


@pytest.mark.parametrize(
    "change", [{}, {"amount": 4821}, {"payee": "carol"}, {"fee": 47}, {"deadline_seconds": 60}]
)
def test_the_same_request_has_the_very_content_of_the_claim(change: dict[str, Any]) -> None:
    assert states.state().same_request(replace(SETTLEMENT, **change)) is (not change)


def test_the_hash_on_the_row_decides_and_not_the_attributes() -> None:
    """It is the one that the conditions compare."""
    assert states.state(amount=1).same_request(SETTLEMENT)
    assert not states.state(request_hash="another").same_request(SETTLEMENT)


# An account


def test_an_account_is_read_from_its_row() -> None:
    row = states.account_row("alice", 4820, limbo_keys={"k1", "k2"})

    assert AccountState.from_row(row) == AccountState(
        account="alice", available=4820, currency="EUR", limbo_keys=frozenset({"k1", "k2"})
    )


@pytest.mark.parametrize("name", ["pk", "available", "currency"])
def test_an_account_has_a_name_a_balance_and_a_currency(name: str) -> None:
    row = without(states.account_row("alice", 1), name)

    with pytest.raises(
        MalformedRow, match=f"^{'None' if name == 'pk' else 'ACCOUNT'}: has no attribute '{name}'$"
    ):
        AccountState.from_row(row)


def test_an_account_is_blocked_by_each_case_of_its_settlements() -> None:
    assert AccountState.from_row(states.account_row("alice", 1)).is_blocked is False
    assert AccountState.from_row(states.account_row("alice", 1, limbo_keys={"k1"})).is_blocked is True


# The helper of these tests


@pytest.mark.parametrize(
    "row",
    [
        None,
        FULL,
        states.account_row("alice", 1, limbo_keys={"k"}),
        entries.evidence(SETTLEMENT, "reverse", ORDER.record(), NOW).parameters["Item"],
    ],
    ids=["no row", "settlement", "account", "entry"],
)
def test_a_refusal_is_given_the_same_state_here_and_by_the_store(row: Row | None) -> None:
    assert states.found(row) == dynamodb._state(wire.to_wire(row) if row else None)
