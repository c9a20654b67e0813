"""Every mutation of a raw row is found by `settle reconcile`, or the table says why it cannot be known."""

import random
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest

from settlement.adapters import pages, second_look, table_scan
from settlement.reconciliation import Findings
from tests.reconciliation.client import readable
from tests.reconciliation.mutations import Mutation, Rows, singles
from tests.reconciliation.shapes import SHAPES, town
from tests.reconciliation.unknowable import explains, explanations, is_explained
from tests.world.memory_dynamodb import MemoryDynamoDb

ONE_OF = 15
"""The quick suite tries one of so many mutations of each shape, other ones for each; the long one all."""

PAIRS = 40
"""Pairs of mutations that are tried of each shape."""


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_look, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(pages, "SEGMENTS", 1)


@cache
def rows_of(shape: str) -> Rows:
    return {key: dict(item) for key, item in town(shape).table.items.items()}


def reconciled(rows: Rows) -> Findings:
    return table_scan.check(readable(MemoryDynamoDb(items=rows)), {"EUR"})


def unexplained(mutations: Iterator[Mutation]) -> tuple[Counter[tuple[str, str, str]], int]:
    """Return the mutations that are neither found nor explained, and how many were tried."""
    missed: Counter[tuple[str, str, str]] = Counter()
    tried = 0
    for mutation in mutations:
        tried += 1
        if reconciled(mutation.rows).conserved and not is_explained(mutation):
            missed[mutation[:3]] += 1
    return missed, tried


@pytest.mark.parametrize("shape", SHAPES)
def test_every_lawful_shape_is_proven(shape: str) -> None:
    findings = reconciled(rows_of(shape))

    assert (findings.faults, findings.unproven, findings.in_flight) == ([], [], 0)
    assert findings.conserved


@pytest.mark.parametrize("shape", SHAPES)
def test_a_mutation_is_found_or_explained(shape: str) -> None:
    every = list(singles(rows_of(shape)))
    start = list(SHAPES).index(shape) % ONE_OF

    missed, tried = unexplained(iter(every[start::ONE_OF]))

    assert not missed
    assert tried >= len(every) // ONE_OF


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_each_single_mutation_is_found_or_explained(shape: str) -> None:
    missed, tried = unexplained(singles(rows_of(shape)))

    assert not missed
    assert tried > 500


@pytest.mark.parametrize("shape", SHAPES)
def test_a_pair_of_mutations_is_found_unless_both_are_explained(shape: str) -> None:
    """Two changes that are found one by one do not hide each other, in a seeded sample."""
    chance, rows = random.Random(shape), rows_of(shape)
    every, tried = list(singles(rows)), 0

    while tried < PAIRS:
        one, other = chance.sample(every, 2)
        changed, also = one.changed(rows), other.changed(rows)
        if changed & also or (is_explained(one) and is_explained(other)):
            continue
        tried += 1
        left = {key: rows[key] for key in rows.keys() - changed - also}
        left |= {key: item for key, item in one.rows.items() if key in changed}
        left |= {key: item for key, item in other.rows.items() if key in also}
        assert not reconciled(left).conserved, (one[:3], other[:3])


PARTS = [(number, part) for number, one in enumerate(explanations()) for part in one.parts()]


@pytest.mark.parametrize(("number", "part"), PARTS, ids=[" ".join(part) for _, part in PARTS])
def test_each_explanation_is_needed(number: int, part: tuple[str, str, str]) -> None:
    tried = 0
    for shape in SHAPES:
        for mutation in singles(rows_of(shape)):
            if explains(part, mutation):
                tried += 1
                if reconciled(mutation.rows).conserved:
                    return
    pytest.fail(f"{part}: all {tried} mutations are found: {explanations()[number].reason}")
