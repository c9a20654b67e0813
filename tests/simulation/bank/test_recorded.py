"""Histories of the reader of statements keep the rules, and find planted bugs."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from handlers.bank import _booking
from settlement.bank import booking, inbox, record, recording
from settlement.bank.recording import Recorder
from settlement.bank.spool import Spool
from tests.simulation.bank.recorded import fault_of

SEEDS, LONG = 60, 400
"""Seeds in `make test`, and in the long tests, which find the planted bugs."""


def test_each_history_keeps_the_rules() -> None:
    assert [fault for seed in range(SEEDS) if (fault := fault_of(seed))] == []


@pytest.mark.long
def test_many_histories_keep_the_rules() -> None:
    assert [fault for seed in range(LONG) if (fault := fault_of(seed))] == []


Plant = Callable[[pytest.MonkeyPatch], None]


def unconditional(name: str, number: int | None = None) -> Plant:
    """Remove the condition of a write, or of one write in a transaction."""
    build = getattr(record, name)

    def bare(write: Any) -> Any:
        kept = {key: value for key, value in write.parameters.items() if key == "Item"}
        return replace(
            write,
            parameters={**kept, "ConditionExpression": "attribute_exists(pk) OR attribute_not_exists(pk)"},
        )

    def built(*arguments: Any) -> Any:
        writes = build(*arguments)
        if number is None:
            return bare(writes)
        return tuple(bare(one) if place == number else one for place, one in enumerate(writes))

    return lambda patch: patch.setattr(record, name, built)


def on(place: object, name: str, value: object) -> Plant:
    return lambda patch: patch.setattr(place, name, value)


def file_first(recorder: Recorder, spool: Spool, file: Any = None, statements: Any = ()) -> bool:
    if file:
        recorder._record.store.put(record.file(file, len(statements), 0))
    return _put(recorder, spool, file, statements)


def only_in_time(recorder: Recorder, *rest: Any) -> bool:
    _put(recorder, *rest)
    return True


def by_amount(order: Any) -> Any:
    return order._replace(reference="RENT")


_put, _match = Recorder._put, record.match
_add_order = Spool.add_order
_remove = inbox.remove
PLANTED: dict[str, Plant] = {
    "a line is put over the one on record": unconditional("line"),
    "a statement is put over the one on record": unconditional("statement"),
    "a file is put over the one on record": unconditional("file"),
    "a line takes a second order": unconditional("match", 0),
    "a match has the row of its line alone": on(
        record, "match", lambda one, real=record.match: real(one)[:1]
    ),
    "a file is on record before its lines": on(Recorder, "_put", file_first),
    "a run without time says that it is whole": on(Recorder, "_put", only_in_time),
    "a file that was not kept is on record": on(inbox, "keep", lambda file, digest: None),
    "matches by amount alone": on(Spool, "add_order", lambda spool, one: _add_order(spool, by_amount(one))),
    "what is matched is forgotten": on(Spool, "add_match", lambda *_: None),
    "lines on record are not matched later": on(Recorder, "match", lambda *_: recording.Told(0, 0, [], True)),
    "any version of a name is removed": on(
        inbox,
        "remove",
        lambda one: [_remove(other) for other in inbox.waiting() if other.key == one.key],
    ),
    "who proposes books": on(booking, "person_of", lambda arn: "nobody"),
    "a line is booked without its match": on(
        _booking, "record", SimpleNamespace(match=lambda one: (), line_of=record.line_of, Match=record.Match)
    ),
    "days are of no matter": on(recording, "DAYS", 30),
    "a file that is gone fails the run": on(inbox, "_GONE", ()),
    "a file that another run keeps fails the run": on(inbox, "_CONFLICT", ()),
}
FINDS = {
    "a line takes a second order": 142,
    "a run without time says that it is whole": 8,
    "what is matched is forgotten": 39,
    "any version of a name is removed": 41,
    "a line is booked without its match": 6,
    "days are of no matter": 268,
    "a file that is gone fails the run": 16,
}
"""For some planted bugs, a seed that is tried first."""


def test_each_recorded_seed_belongs_to_a_planted_bug() -> None:
    assert FINDS.keys() <= PLANTED.keys()


@pytest.mark.long
@pytest.mark.parametrize("bug", PLANTED)
def test_the_histories_find_each_planted_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[bug](monkeypatch)

    assert any(fault_of(seed) for seed in (FINDS.get(bug, 0), *range(LONG)))
