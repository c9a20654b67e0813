import re
from collections.abc import Iterator

import pytest

from tests.infra.evaluator import requests
from tests.infra.observed import SEEDS, Call, lives
from tests.simulation.seeded import checks

ALL = [seed for seed in range(480) if seed % checks.EVERY != checks.PLACE]


def kinds(call: Call) -> Iterator[tuple[str, ...]]:
    """Yield the parts of a call that a policy can distinguish."""
    if call.service != "dynamodb":
        folder = str(call.parameters.get("Prefix", call.parameters.get("Key"))).partition("/")[0]
        named = "" if call.operation == "SendTaskSuccess" else call.variable
        yield call.function, call.operation, named, folder
        return
    table = "index" if "IndexName" in call.parameters else "table"
    for one in requests(table, call.operation, call.parameters):
        yield call.function, one.action, table, re.sub("#[^']*", "#", str(sorted(one.context.items())))


def chosen(found: dict[int, set[tuple[str, ...]]]) -> Iterator[int]:
    missed = set[tuple[str, ...]]().union(*found.values())
    while missed:
        best = max(found, key=lambda seed: len(found[seed] & missed))
        missed -= found[best]
        yield best


@pytest.mark.long
def test_the_observed_histories_make_every_kind_of_call() -> None:
    found = {
        seed: {kind for call in calls for kind in kinds(call)}
        for seed, calls in zip(ALL, lives(ALL), strict=True)
    }

    missed = set[tuple[str, ...]]().union(*found.values()).difference(*(found[seed] for seed in SEEDS))

    assert not missed, f"none is missed with SEEDS = {sorted(chosen(found))}"
