"""Lists bugs, planted one at a time into the payouts' functions, which the lives must find.

A function keeps its name and module; only its code is replaced.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from settlement.core.ledger import keys
from settlement.payouts import decision, destination, follow, hints, moves, policy, writes
from settlement.payouts.moves import Move, Place, Rule
from settlement.payouts.payout import State, Status, Word
from tests.simulation.payouts import bank
from tests.simulation.payouts.lives import ALONE, SCRIPTS, Life, pairs, singles


@dataclass(frozen=True)
class Bug:
    """A bug to plant.

    `edits`: changed texts of modules. `constants`: changed values. `scripts`: those whose lives find it.
    """

    name: str
    scripts: tuple[str, ...]
    edits: tuple[tuple[ModuleType, str, str], ...] = ()
    constants: Mapping[tuple[Any, str], Any] = field(default_factory=dict)


def _with(move: Move, to: Status, **money: tuple[Place, Place] | None) -> Mapping[Move, Rule]:
    return {**moves.RULES, move: Rule(to, {Status[name]: moved for name, moved in money.items()})}


_OUT, _FROM_ACCOUNT = (Place.TRANSIT, Place.EXTERNAL), (Place.ACCOUNT, Place.EXTERNAL)
_RETURNED, _BACK = (Place.EXTERNAL, Place.ACCOUNT), (Place.TRANSIT, Place.ACCOUNT)

_UNLISTED = '\n        "posted_at": timestamp(now),'
_LISTED = f"{_UNLISTED}\n        **keys.payout_orders_index(timestamp(now)),"

BUGS = (
    # The eight rules of the design
    Bug(
        "1: the bank's key has the number of the attempt",
        ("pays", "keys of four hours"),
        (
            (bank, "[payout.reference, ", "[f'{payout.reference}-{state.attempts}', "),
            (follow, "if state.sent_sha256 not in (None, digest):", "if state.sent_sha256 == '':"),
        ),
    ),
    Bug(
        "2: a request with other bytes is sent again under the same key",
        ("pays",),
        (
            (
                bank,
                "[payout.reference, payout.amount, ",
                "[payout.reference, payout.amount + state.attempts, ",
            ),
            (follow, "if state.sent_sha256 not in (None, digest):", "if state.sent_sha256 == '':"),
        ),
    ),
    Bug(
        "2: never seen allows a second send without a window",
        ("pays, no keys, no statement",),
        ((policy, "return now <= min(known_until, asked_until) - WINDOW_MARGIN", "return True"),),
    ),
    Bug(
        "2: a lost answer means refused",
        ("pays, no keys",),
        (
            (
                follow,
                "self._move(sending, Move.DOUBT, detail=answer.reason)",
                "self._move(sending, Move.REFUSE)",
            ),
        ),
    ),
    Bug(
        "2: a payout that was never seen is given back",
        ("pays, no keys",),
        constants={(moves, "HEARD"): {**moves.HEARD, (Status.UNKNOWN, Word.NEVER_SEEN): Move.REFUSE}},
    ),
    Bug(
        "3: every refusal counts",
        ("in progress",),
        (
            (
                follow,
                "case Refused(reason) if reason in self.bank.declared.refusals:",
                "case Refused(reason):",
            ),
        ),
    ),
    Bug(
        "4: an event is believed",
        ("refuses later, events", "pays in five days"),
        (
            (
                hints,
                "    after = moves.brought_forward(state, now)\n",
                "    if state.status == 'ACCEPTED':\n"
                "        after = moves.after(state, moves.Move.PAY, now)\n"
                "        store.transact(writes.move(state, after, moves.Move.PAY, now))\n"
                "        return after\n"
                "    after = moves.brought_forward(state, now)\n",
            ),
        ),
    ),
    Bug(
        "5: a second return is booked",
        ("second return",),
        (
            (
                follow,
                '            raise LineRefused(f"line: a second return of {state.key}")',
                "            pass",
            ),
            (
                follow,
                "return self._commit_line(state, line, return_line=line.identity)",
                "return self._move(state, Move.RETURN, line=line, return_line=line.identity)",
            ),
        ),
        {
            (moves, "RULES"): _with(
                Move.RETURN,
                Status.RETURNED,
                PAID=_RETURNED,
                CONFIRMED=_RETURNED,
                RETURNED=_RETURNED,
            )
        },
    ),
    Bug(
        "5: a return of a refused payout is booked",
        ("return of a refused",),
        (
            (
                follow,
                'raise LineRefused(f"line: a return of {state.key}, which was refused")',
                "return self._commit_line(state, line, return_line=line.identity)",
            ),
        ),
    ),
    Bug(
        "6: a line is matched by its amount",
        ("stray",),
        (
            (
                hints,
                '    if row is None:\n        return None\n    key = row.get("key")',
                '    return "payout-of-a-life-0001"\n    key = ""',
            ),
        ),
    ),
    Bug(
        "7: another amount is booked",
        ("half",),
        (
            (
                follow,
                "if (line.amount, line.currency) != (state.payout.amount, ",
                "if (state.payout.amount, line.currency) != (state.payout.amount, ",
            ),
        ),
    ),
    Bug(
        "7: a line that is booked is booked again",
        ("pays",),
        ((follow, "if line.identity in (state.debit_line, state.return_line):", "if not line.identity:"),),
    ),
    Bug(
        "7: a second debit takes the place of the first",
        ("second debit",),
        (
            (
                follow,
                '            raise LineRefused(f"line: a second debit of {state.key}")',
                "            return self._commit_line(state, line, debit_line=line.identity)",
            ),
        ),
    ),
    Bug(
        "8: a payment leaves the customer's account a second time",
        ("pays",),
        constants={
            (moves, "RULES"): _with(
                Move.PAY,
                Status.PAID,
                SENDING=_OUT,
                UNKNOWN=_OUT,
                ACCEPTED=_FROM_ACCOUNT,
                LIMBO=_OUT,
            )
        },
    ),
    Bug(
        "8: a case takes its money out of transit",
        ("dark, no keys", "dark, keys"),
        constants={
            (moves, "RULES"): _with(Move.STICK, Status.LIMBO, RESERVED=_BACK, UNKNOWN=_BACK, ACCEPTED=_BACK)
        },
    ),
    # What the rules stand on
    Bug(
        "no fence by the sequence",
        ("pays", "pays in an hour"),
        (
            (
                writes,
                "conditions=[sequence_is(before.sequence)],",
                "conditions=[same_currency(before.payout.currency)],",
            ),
        ),
    ),
    Bug(
        "no margin on the window",
        ("keys of an hour",),
        constants={(policy, "WINDOW_MARGIN"): timedelta()},
    ),
    Bug(
        "persons are asked after a second",
        ("pays, no keys",),
        constants={(policy, "ASKED_FOR"): timedelta(seconds=1)},
    ),
    Bug(
        "a decision is taken by one person",
        ("dark, keys",),
        (
            (decision, 'if person_of(proposal["by"]) == caller.person:', "if not caller.person:"),
            (decision, 'or person_of(by) == person_of(told["by"])', ""),
        ),
    ),
    Bug(
        "a decision needs no first person",
        ("dark, keys",),
        (
            (
                decision,
                '        raise ResolutionRefused(f"verdict: nobody has proposed',
                '        first = dict.fromkeys(("reason", "by", "posted_at"), "-")\n'
                '        first |= {"digest": order.digest, "verdict": order.verdict.value}\n'
                '        first |= {"contradicts": "yes"}\n'
                '        str(f"verdict: nobody has proposed',
            ),
        ),
    ),
    Bug(
        "a decision of an older case is taken",
        ("closed, then dark",),
        (
            (keys, 'f"{case:06}#{digest[:16]}#APPROVED"', '"APPROVED"'),
            (decision, 'told["digest"] != state.digest or', ""),
        ),
    ),
    Bug(
        "a decision is carried out against what the bank says by now",
        (ALONE.name,),
        ((decision, "return word is not shown and", "return word is None and"),),
    ),
    Bug(
        "not-paid does not wait for a silent bank",
        ("silent, persons wait",),
        (
            (
                decision,
                "return verdict is Verdict.NOT_PAID and isinstance(answer",
                "return not verdict and isinstance(answer",
            ),
        ),
    ),
    Bug(
        "a silent bank holds an approval for ever",
        ("silent for ever, persons wait",),
        ((policy, "return now > _at(approved_at) + SILENT_FOR", "return False"),),
    ),
    Bug(
        "a case of a paid payout has no verdict",
        ("pays, no statement",),
        ((decision, "return Verdict.NOT_PAID, Verdict.ASK, Verdict.CLOSE", "return ()"),),
    ),
    Bug(
        "who asks for ten more days is asked again at once",
        ("pays, no statement",),
        ((follow, "if verdict is Verdict.ASK else {}", "if not verdict else {}"),),
    ),
    Bug(
        "a closed payout comes to persons again",
        ("pays, no statement",),
        constants={(State, "is_closed"): property(lambda state: False)},
    ),
    Bug(
        "suspense is never given back",
        ("returns, frozen, then opens",),
        (
            (
                decision,
                "return (Verdict.GIVE_BACK,) if state.in_suspense else",
                "return () if state.in_suspense else",
            ),
        ),
    ),
    Bug(
        "what is given back stays marked as in suspense",
        ("returns, frozen, then opens",),
        ((moves, '"in_suspense": None, "given_back_at"', '"given_back_at"'),),
    ),
    # A restored table
    Bug(
        "does not ask first",
        ("restored",),
        ((policy, "return not state.is_sent and now > _at(state.reserved_at) + FRESH", "return False"),),
    ),
    Bug(
        "what the bank knows is sent",
        ("restored",),
        (
            (
                follow,
                "        if isinstance(known, Found):\n            return self._known",
                "        if not body:\n            return self._known",
            ),
        ),
    ),
    Bug(
        "a frozen destination bars what the bank knows",
        ("restored, frozen",),
        ((follow, "writes.known(state, sent)", "writes.move(state, sent, Move.SEND, self.now())"),),
    ),
    # Destinations
    Bug(
        "a frozen destination is reserved for",
        ("pays",),
        (
            (
                writes,
                'values={":payout": payout.key},\n        conditions=[EXISTS, NOT_FROZEN],',
                'values={":payout": payout.key},\n        conditions=[EXISTS],',
            ),
        ),
    ),
    Bug(
        "a frozen destination is paid",
        ("frozen before it is sent",),
        ((writes, "    if step is Move.SEND:", "    if not step:"),),
    ),
    Bug(
        "a freeze between the read and the record of a send is missed",
        ("pays",),
        (
            (writes, "    if step is Move.SEND:", "    if not step:"),
            (
                follow,
                "        try:\n            sending = self._move(",
                "        place = keys.destination(state.payout.destination)\n"
                '        if "frozen_at" in (self.store.read(place) or {}):\n'
                "            return self._unsent(state, FROZEN)\n"
                "        try:\n            sending = self._move(",
            ),
        ),
    ),
    Bug(
        "the bank account of the row is believed",
        ("altered before it is sent",),
        ((follow, "or not self._is_of(entry, state) or", "or"),),
    ),
    Bug(
        "at a second send, the bank account of the row is believed",
        ("altered after it is sent",),
        (
            (
                follow,
                "or not self._is_of(entry, state) or",
                "or not (state.is_sent or self._is_of(entry, state)) or",
            ),
        ),
    ),
    # Lines
    Bug(
        "a debit that is itself a return is booked",
        ("recalled",),
        ((follow, "        if line.returns:\n", "        if not line.identity:\n"),),
    ),
    Bug(
        "a line moves the payout before it is claimed",
        ("dark, booked by an order",),
        (
            (
                follow,
                "paid = self._move(state, Move.PAY, line=line, debit_line=line.identity)\n"
                "                return self._finish(paid, line)",
                "paid = self._move(state, Move.PAY)\n"
                "                return self._move(paid, Move.CONFIRM, line=line, debit_line=line.identity)",
            ),
        ),
    ),
    Bug(
        "a line is not claimed",
        ("booked by an order",),
        ((writes, "    if line:\n", "    if not step:\n"),),
    ),
    Bug(
        "a line's second move is not made up for",
        ("dark, no keys",),
        (
            (
                follow,
                "            return self._finish(state, line)\n        if line.account",
                "            return state\n        if line.account",
            ),
        ),
    ),
    Bug(
        "two lines at once are not fenced",
        ("returns at once",),
        (
            (
                moves,
                "replace(state, sequence=state.sequence + 1, **changed), now, trouble",
                "replace(state, **changed), now, trouble",
            ),
        ),
    ),
    Bug(
        "a refused line is forgotten",
        ("half",),
        ((follow, "if not self._is_booked_otherwise(identity):", "if not identity:"),),
    ),
    Bug(
        "a line that an order has stays listed as refused",
        ("booked by an order",),
        ((follow, "if not self._is_booked_otherwise(identity):", "if identity:"),),
    ),
    Bug(
        "a booked line stays listed",
        ("pays",),
        ((follow, "        self._commit((lines.booked(identity),))\n", ""),),
    ),
    # Ends
    Bug(
        "a return goes to a closed account",
        ("returns, closed",),
        ((writes, "*([NOT_CLOSED, NOT_FROZEN] if is_return else [])", ""),),
    ),
    Bug(
        "a refusal does not go back to a closed account",
        ("refuses, closed",),
        ((writes, "*([NOT_CLOSED, NOT_FROZEN] if is_return else [])", "NOT_CLOSED"),),
    ),
    Bug(
        "a payout that cannot be sent waits for ever",
        ("never opens",),
        constants={(policy, "RESERVED_FOR"): timedelta(days=1_000)},
    ),
    Bug(
        "a bank is asked for ever",
        ("dark for ever",),
        ((follow, "if policy.is_asked_out(state, self.now()):", "if state.sequence < 0:"),),
    ),
    Bug(
        "nobody is on record for a freeze",
        ("frozen before it is sent",),
        ((destination, "return move, put(row, on_failure=lambda found: taken)", "return (move,)"),),
    ),
    Bug(
        "settle audit cannot find a proposal",
        ("dark, no keys",),
        (
            (
                decision,
                '"by": caller.by,' + _LISTED,
                '"by": caller.by,' + _UNLISTED,
            ),
        ),
    ),
    Bug(
        "settle audit cannot find an approval",
        ("dark, no keys",),
        (
            (
                decision,
                "order.reason," + _LISTED,
                "order.reason," + _UNLISTED,
            ),
        ),
    ),
)


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    undo: list[Callable[[], None]] = []
    try:
        for module in dict.fromkeys(module for module, _, _ in bug.edits):
            changed = Path(str(module.__file__)).read_text()
            for of, old, new in bug.edits:
                if of is module:
                    assert old in changed, f"{bug.name}: {old} is not in {module.__name__}"
                    changed = changed.replace(old, new)
            fresh = ModuleType(module.__name__)
            exec(compile(changed, str(module.__file__), "exec"), fresh.__dict__)
            undo += [*_exchange(module, fresh)]
        for (place, name), value in bug.constants.items():
            was = getattr(place, name)
            setattr(place, name, value)
            undo.append(lambda place=place, name=name, was=was: setattr(place, name, was))  # type: ignore[misc]
        yield
    finally:
        for one in undo:
            one()


def _exchange(module: ModuleType, fresh: ModuleType) -> Iterator[Callable[[], None]]:
    for name, function in _functions(module, module.__name__):
        other = dict(_functions(fresh, module.__name__))[name]
        was = function.__code__
        function.__code__ = other.__code__
        yield lambda function=function, was=was: setattr(function, "__code__", was)  # type: ignore[misc]


def _functions(place: Any, module: str) -> Iterator[tuple[str, FunctionType]]:
    for name, found in vars(place).items():
        if getattr(found, "__module__", None) != module:
            continue
        if isinstance(found, FunctionType) and not found.__closure__:
            yield name, found
        elif inspect.isclass(found):
            for inner, method in vars(found).items():
                if (
                    isinstance(method, FunctionType)
                    and method.__module__ == module
                    and not method.__closure__
                ):
                    yield f"{name}.{inner}", method


def first_fault(bug: Bug) -> str | None:
    scripts = [script for script in (*SCRIPTS, ALONE) if script.name in bug.scripts]
    with planted(bug):
        for lives in (singles, pairs):
            for life in (one for script in scripts for one in _watched(lives(script))):
                if isinstance(life, str) or life.broken:
                    return life if isinstance(life, str) else f"{life.deviations}: {life.broken[0]}"
    return None


def _watched(lives: Iterator[Life]) -> Iterator[Life | str]:
    try:
        yield from lives
    except Exception as error:
        yield f"{type(error).__name__}: {error}"
