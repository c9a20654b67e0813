"""Records a payment's moments: the rows and executions before each entered state.

Moments are JSON with DynamoDB's rows, signatures included, each with only the rows changed since the previous
one.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from handlers import _dependencies
from handlers.core import _payee
from settlement.core.store.wire import to_wire
from tests.settle.desk import Desk
from tests.world.definitions import COMPENSATION
from tests.world.environment import NOW
from tests.world.interpreter import Execution, Waiting
from tests.world.provider import APPROVED

Moment = dict[str, Any]
"""A moment, with `rows`, `gone` (keys of deleted rows) and `executions`."""

_KEY = ("pk", "sk")
_LATER_SECONDS = 120


def seen(desk: Desk, way: Callable[[Desk], object]) -> list[Moment]:
    """Play a scripted payment; return its moments, the last one being its end."""
    found: list[Moment] = []

    def look(entering: Execution | None = None) -> None:
        wires = [to_wire(row) for row in desk.ledger.rows()]
        found.append({"rows": wires, "executions": [_execution(one) for one in desk.executions]})

    desk.machines.machines.between = look
    way(desk)
    look()
    return list(_changes(found))


def whole(moments: Sequence[Moment]) -> Iterator[Moment]:
    rows: dict[tuple[str, str], Any] = {}
    for moment in moments:
        for gone in moment["gone"]:
            del rows[tuple(gone)]
        rows |= {_key(row): row for row in moment["rows"]}
        yield {"rows": list(rows.values()), "executions": moment["executions"]}


def put_back(desk: Desk, moment: Moment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore a moment's table and executions, two minutes later, without faults.

    Executions that were settling are aborted.
    """
    seconds = count(_LATER_SECONDS)
    monkeypatch.setattr(_dependencies, "now", lambda: NOW + timedelta(seconds=next(seconds)))
    for row in desk.ledger.rows():
        desk.ledger.delete({name: row[name] for name in _KEY})
    for row in moment["rows"]:
        desk.ledger.client.put_item(TableName=desk.ledger.table_name, Item=row)
    desk.executions.clear()
    desk.machines.started.clear()
    desk.broken.clear()
    desk.provider.answer = APPROVED
    _payee._remembered.clear()
    for told in moment["executions"]:
        waits = told.pop("waits")
        execution = Execution(desk.machines.machines, **told)
        if waits and execution.machine == COMPENSATION:
            execution._waits_for = Waiting()
        elif execution.machine != COMPENSATION and execution.status == "RUNNING":
            execution.status = "ABORTED"
        desk.executions.append(execution)


def _execution(one: Execution) -> dict[str, Any]:
    names = ("machine", "name", "data", "state", "status", "error", "token", "wait_seconds", "begun_with")
    return {name: getattr(one, name) for name in names} | {"waits": one.is_waiting}


def _changes(moments: Sequence[Moment]) -> Iterator[Moment]:
    before: dict[tuple[str, str], Any] = {}
    for moment in moments:
        rows = {_key(row): row for row in moment["rows"]}
        changed = [row for key, row in rows.items() if before.get(key) != row]
        gone = [list(key) for key in before.keys() - rows.keys()]
        yield {"rows": changed, "gone": sorted(gone), "executions": moment["executions"]}
        before = rows


def _key(row: Any) -> tuple[str, str]:
    return row["pk"]["S"], row["sk"]["S"]
