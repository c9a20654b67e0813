"""A function answers any input, or refuses it by contract and writes nothing."""

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from tests.fuzz.cases import FUNCTIONS, Case, draw, run
from tests.fuzz.kept import KEPT
from tests.fuzz.mutation import Bytes
from tests.fuzz.payloads import FROM_OUTSIDE
from tests.fuzz.stage import HANDLERS, Stage, staged
from tests.world.rooms import there

FEW, INPUTS = 200, 1_200
"""Inputs per function, in `make test` and in the long suite; a tenth as many payloads fit no definition."""

each_amount = pytest.mark.parametrize("inputs", [FEW, pytest.param(INPUTS, marks=pytest.mark.long)])

DRAWN_BYTES = 48


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with staged() as stage:
        yield stage


def tried(stage: Stage, function: str, anyhow: bool, inputs: int) -> Counter[str]:
    """Run a function on hostile inputs, the same each time; count the ends. A fault prints a case to keep."""
    ends, chance = Counter[str](), Random(function)
    for _ in range(inputs):
        case = draw(function, Bytes(chance.randbytes(DRAWN_BYTES)), anyhow)
        try:
            ends[run(stage, case)] += 1
        except Exception as fault:
            raise AssertionError(f"{type(fault).__name__}: {fault}; keep {case!r}") from fault
    return ends


PAYOUTS = there("payouts", "reserve_payout", "serve_payouts", "follow_payouts", "bank_events")

WIRED = (
    *("kyc_decided", "start_settlements", "take_order"),
    *("accept_settlements", "cancel_settlement", "read_settlements"),
    *there("checks", "check_decided"),
)
"""The functions that read text and receive no payload of a definition."""


def test_every_function_is_fuzzed() -> None:
    """The functions in `others` read nothing of their event.

    Their hostile rows and objects are in test_reconcile_books.py, test_read_statements.py and
    tests/books/test_project_entries.py; for payouts, in tests/handlers/payouts/test_hostile_input.py.
    """
    others = {"reconcile_books", "read_statements", *there("books", "project_entries"), *PAYOUTS}
    others |= {*there("payruns", "pay_lines")}
    assert set(FUNCTIONS) | others == set(HANDLERS)
    assert len(FUNCTIONS) * INPUTS >= 20_000


@each_amount
@pytest.mark.parametrize("function", [name for name in FUNCTIONS if FROM_OUTSIDE[name]])
def test_hostile_input_is_answered_or_refused_by_name_without_writing(
    stage: Stage, function: str, inputs: int
) -> None:
    ends = tried(stage, function, False, inputs)

    assert ends.total() >= inputs
    if function != "send_page":  # it turns any event into a page
        assert len(ends) > 1, f"every input ended alike: {ends}"


@each_amount
@pytest.mark.parametrize("function", [name for name in FUNCTIONS if name not in WIRED])
def test_a_payload_outside_the_definition_writes_nothing_if_it_fails(
    stage: Stage, function: str, inputs: int
) -> None:
    assert tried(stage, function, True, inputs // 10).total() >= inputs // 10


@pytest.mark.parametrize("case", KEPT.values(), ids=KEPT)
def test_an_input_that_once_broke_a_claim_now_passes(stage: Stage, case: Case) -> None:
    run(stage, case)
