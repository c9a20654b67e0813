"""Every kind of mutation of a raw row is found, or listed as unknowable.

Mutations of one kind make the same change to the same attribute of similar rows.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache

import pytest

from tests.proof.client import reconciled
from tests.proof.mutations import Mutation, Rows, singles
from tests.proof.shapes import SHAPES, town
from tests.proof.unknowable import PAGE, explains, explanations, is_explained, rendered
from tests.world.rooms import is_there

OF_EACH, OF_EACH_IN_THE_LONG_SUITE = 1, 16

PAIRS = 15


pytestmark = pytest.mark.usefixtures("one_segment")


@cache
def rows_of(shape: str) -> Rows:
    return town(shape).rows()


@cache
def singles_of(shape: str) -> tuple[Mutation, ...]:
    return tuple(singles(rows_of(shape)))


@cache
def by_kind() -> dict[tuple[str, str, str], list[tuple[str, Mutation]]]:
    found = defaultdict[tuple[str, str, str], list[tuple[str, Mutation]]](list)
    for shape in SHAPES:
        for one in singles_of(shape):
            found[one.kind].append((shape, one))
    return found


@cache
def chosen(of_each: int) -> dict[str, list[Mutation]]:
    """Return mutations by shape, up to `of_each` of a kind."""
    found = defaultdict[str, list[Mutation]](list)
    for kind, some in by_kind().items():
        for shape, one in random.Random(str(kind)).sample(some, min(of_each, len(some))):
            found[shape].append(one)
    return found


def is_found(shape: str, *mutations: Mutation) -> bool:
    rows = rows_of(shape)
    for mutation in mutations:
        rows = mutation.of(rows)
    return not reconciled(rows).conserved


def unexplained(shape: str, mutations: Iterable[Mutation]) -> Counter[tuple[str, str, str]]:
    return Counter(one.kind for one in mutations if not is_found(shape, one) and not is_explained(one.kind))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_proof_accepts_every_lawful_settlement(shape: str) -> None:
    findings = reconciled(rows_of(shape))

    assert (findings.faults, findings.unproven, findings.in_flight) == ([], [], 0)
    assert findings.conserved


def test_each_kind_of_mutation_is_tried() -> None:
    tried = [one.kind for some in chosen(OF_EACH).values() for one in some]

    assert sorted(tried) == sorted(by_kind())
    assert len(tried) > 2_000


@pytest.mark.parametrize("shape", SHAPES)
def test_one_mutation_of_each_kind_is_found_or_explained(shape: str) -> None:
    assert not unexplained(shape, chosen(OF_EACH)[shape])


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_many_mutations_of_each_kind_are_found_or_explained(shape: str) -> None:
    assert not unexplained(shape, chosen(OF_EACH_IN_THE_LONG_SUITE)[shape])


@pytest.mark.parametrize("shape", SHAPES)
def test_two_mutations_together_are_found_unless_both_are_explained(shape: str) -> None:
    chance, tried = random.Random(shape), 0
    while tried < PAIRS:
        one, other = chance.sample(singles_of(shape), 2)
        if one.rows.keys() & other.rows.keys() or (is_explained(one.kind) and is_explained(other.kind)):
            continue
        tried += 1
        assert is_found(shape, one, other), (one.kind, other.kind)


PARTS = [(number, part) for number, one in enumerate(explanations()) for part in one.parts()]


@pytest.mark.parametrize(("number", "part"), PARTS, ids=[" ".join(part) for _, part in PARTS])
def test_each_explanation_is_needed(number: int, part: tuple[str, str, str]) -> None:
    about = [each for kind, some in by_kind().items() if explains(part, kind) for each in some]

    is_whole = all(map(is_there, ("doors", "merchants", "payouts")))  # without one a shape may be gone
    assert about or not is_whole
    rare_first = reversed(about)
    assert not about or not all(is_found(*one) for one in rare_first), explanations()[number].reason


def test_the_documentation_page_lists_every_undetectable_change() -> None:
    assert PAGE.read_text() == rendered(), "run `python -m tests.proof.unknowable`"
