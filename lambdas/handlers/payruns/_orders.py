"""Orders on pay runs. One person proposes a run, others approve it; no order moves money."""

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache, partial
from typing import Any

from handlers import _dependencies
from settlement.core.ledger import keys
from settlement.core.ledger.transaction import AlreadyApplied, Write
from settlement.core.model.errors import PayRunRefused
from settlement.core.model.stored import MalformedRow
from settlement.http.caller import Caller, person_of
from settlement.payruns import orders, writes
from settlement.payruns.changes import told
from settlement.payruns.orders import Rules
from settlement.payruns.run import Proposal, Run, Status
from settlement.signing.stage import row_keys

_FACTS = ("name", "kind", "payer", "parent", "lines", "sums")
"""Facts in which proposals of one file must agree."""

Change = Callable[[Run, Proposal, Caller, datetime], Sequence[Write]]


@cache
def rules() -> Rules:
    """The stage's rules. Raises PayRunRefused if the room is off: TakeOrder also runs without it."""
    if "PAYRUNS" not in os.environ:
        raise PayRunRefused("run: this stage has none")
    return Rules(**json.loads(os.environ["PAYRUNS"]))


def propose(body: object, caller: Caller) -> dict[str, Any]:
    """Propose a run. A repeat, or another person's proposal of the same file, changes nothing.

    Raises InvalidRequest, and PayRunRefused if the file is proposed with other facts.
    """
    one = orders.parse_proposal(body, rules(), _dependencies.config, caller, _dependencies.now())
    try:
        _dependencies.store.transact(writes.propose(one, caller))
    except AlreadyApplied:
        first = _proposal(one.run)
        if any(getattr(first, name) != getattr(one, name) for name in _FACTS):
            raise PayRunRefused(
                "digest: it is proposed with other facts: give the run another name"
            ) from None
        one = first
    return _answer(one, _state(one.run))


def approve(body: object, caller: Caller) -> dict[str, Any]:
    """Approve another person's run, once for each person.

    Raises InvalidRequest, PayRunRefused, MalformedRow.
    """
    run, digest = _shown(body)
    one, state, store = _proposal(run), _state(run), _dependencies.store
    if one.digest != digest:
        raise PayRunRefused("digest: the run has another file than you were shown")
    if person_of(one.by) == caller.person:
        raise PayRunRefused("by: who proposed a run does not approve it")
    if store.read(keys.payrun_approved(run, caller.person)) is None:
        with suppress(AlreadyApplied):
            store.transact(writes.approve(state, one, caller, _dependencies.now()))
        state = _state(run)
    return _answer(one, state)


def _order(change: Change, is_done: Callable[[Run], bool], body: object, caller: Caller) -> dict[str, Any]:
    run, digest = _shown(body)
    one, state = _proposal(run), _state(run)
    if one.digest != digest:
        raise PayRunRefused("digest: the run has another file than you were shown")
    if not is_done(state):
        with suppress(AlreadyApplied):
            _dependencies.store.transact(tuple(change(state, one, caller, _dependencies.now())))
        state = _state(run)
    return _answer(one, state)


def _shown(body: object) -> tuple[str, str]:
    rules()
    return orders.parse_shown(body)


def _proposal(run: str) -> Proposal:
    row = _dependencies.store.read(keys.payrun_proposed(run))
    if row is None:
        raise PayRunRefused(f"run: nobody has proposed {run}")
    if not row_keys.is_proven(row):
        raise MalformedRow(f"PAYRUN#{run}: its proposal has no valid signature")
    return Proposal.from_row(row)


def _state(run: str) -> Run:
    row = _dependencies.store.read(keys.payrun(run))
    if row is None:
        raise PayRunRefused(f"run: nobody has proposed {run}")
    return Run.from_row(row)


def _answer(one: Proposal, state: Run) -> dict[str, Any]:
    told_of = {"digest": one.digest, "needed": one.needed, "proposed_by": one.by}
    return told(state, _dependencies.config) | told_of


ORDERS = {
    "propose-payrun": (propose, None),
    "approve-payrun": (approve, None),
    "run-payrun": (partial(_order, writes.resume, lambda one: one.status is Status.RUNNING), None),
    "pause-payrun": (partial(_order, writes.pause, lambda one: one.status is Status.PAUSED), None),
    "cancel-payrun": (partial(_order, writes.cancel, lambda one: one.cut is not None), None),
}
