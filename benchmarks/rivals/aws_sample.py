"""The shape of AWS's saga samples: one function per step, which logs its event and writes a row."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from benchmarks.rivals import Attempt, Place
from benchmarks.rivals.plain import Event, PlainWrites, payment


class Sample:
    """Four functions of plain writes."""

    def __init__(self, place: Place) -> None:
        writes = PlainWrites(place)
        steps = (writes.hold, writes.verify, writes.release, writes.collect)
        self.functions: Sequence[Callable[[str, Any], Any]] = [partial(_function, step) for step in steps]

    def attempts(self, key: str) -> Sequence[Attempt]:
        """Return a call of each function."""
        return [partial(function, key, None) for function in self.functions]


def _function(step: Callable[[Event], None], key: str, state: object) -> Event:
    event = payment(key)
    print(f"request: {json.dumps(event)}")
    step(event)
    return {**event, "status": "ok"}


enter = Sample
