"""Each payout has exactly the entries, decisions, lines and destination that its rows require."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.timestamps import timestamp
from settlement.core.store.dynamodb import Store
from settlement.payouts.payout import Payout, Word
from settlement.proof import Difference, Findings, Look, payout_look, payout_rows, reconcile, table_scan
from settlement.proof.payout_spool import Destination
from settlement.proof.watch import JUDGING, unwatched
from settlement.proof.watched_store import WatchedStore
from tests.proof.client import readable, reconciled
from tests.proof.payouts.life import IBANS, Life, lived
from tests.proof.payouts.shapes import PATHS
from tests.proof.town import Town
from tests.world.environment import NOW

pytestmark = pytest.mark.usefixtures("one_segment")

KEY = "payout-2026-000101"
PAYOUT = Payout(key=KEY, account="alice", amount=4_820, currency="EUR", destination="home")
ACTS = (
    *(f"hear {word}" for word in Word),
    *("wait 4", "wait 11", "debit", "back", "freeze", "unfreeze", "frozen"),
    *("half out", "half in", "rebook out", "rebook in"),
    *(
        f"decide {verdict}"
        for verdict in (
            *("paid", "paid against", "not-paid", "not-paid against", "ask"),
            *("give-back", "give-back other", "close"),
        )
    ),
)
DEPTH = 8


def town_of(*acts: str) -> Life:
    town = Town()
    town.open("alice", 20_000)
    town.open("carol", 0)
    return lived(town, PAYOUT, *acts)


def copied(life: Life) -> Life:
    town = Town(now=life.town.now)
    town.table.items.update(life.town.table.items)
    return Life(town, life.payout)


def shape(life: Life) -> tuple[Any, ...]:
    """Return the values that distinguish a payout's state from others."""
    state = life.state()
    decided = (state.decided or {}).get("verdict")
    flags = (state.is_sent, state.trouble, state.in_suspense, state.given_back_to, state.said)
    account = life.town.row(keys.account("alice"))
    is_frozen = ("frozen_at" in account, "frozen_at" in life.town.row(keys.destination("home")))
    lines = (state.debit_line is None, state.return_line is None, state.paid_at is None)
    return state.status, decided, flags, lines, is_frozen


Reached = tuple[tuple[str, ...], Life]
"""Acts, and the life after them."""


def reachable() -> Iterator[Reached]:
    """Yield each reachable payout shape, made by the room's own functions."""
    first = town_of()
    seen, level = {shape(first)}, list[Reached]([((), first)])
    for _ in range(DEPTH):
        following = list[Reached]()
        for path, life in level:
            yield path, life
            for act in ACTS:
                after = copied(life)
                if "freeze" in act and sum("freeze" in one for one in path) > 1:
                    continue
                if after.act(act) and shape(after) not in seen:
                    seen.add(shape(after))
                    following.append(((*path, act), after))
        level = following


@pytest.mark.long
def test_every_reachable_payout_is_proven_without_a_finding() -> None:
    lives = 0
    for path, life in reachable():
        findings = reconciled(life.town.table.items)
        told = (findings.faults, findings.unproven, findings.in_flight)
        assert told == ([], [], 0), path
        assert findings.conserved, path
        lives += 1

    assert lives > 200


@pytest.mark.parametrize(
    ("acts", "totals"),
    [
        ((), {"customers": 15_180, "external": -20_000, "transit": 4_820}),
        (("hear accepted", "hear paid"), {"customers": 15_180, "external": -15_180, "transit": 0}),
        (
            ("hear accepted", "hear paid", "freeze", "back"),
            {"customers": 15_180, "external": -20_000, "transit": 0, "suspense": 4_820},
        ),
    ],
    ids=str,
)
def test_the_totals_show_where_a_payouts_money_is(acts: tuple[str, ...], totals: dict[str, int]) -> None:
    assert reconciled(town_of(*acts).town.table.items).totals["EUR"] == totals


# One corruption, one finding


def changed(key: Row, **changes: Any) -> Any:
    def corrupt(life: Life) -> None:
        left = {**life.town.row(key), **changes}
        life.town.put({name: value for name, value in left.items() if value is not None})

    return corrupt


def gone(kind: str, ending: str) -> Any:
    def corrupt(life: Life) -> None:
        (key,) = (one for one in life.town.table.items if one[0].startswith(kind) and one[1].endswith(ending))
        del life.town.table.items[key]

    return corrupt


def of_payout(**changes: Any) -> Any:
    return changed(keys.payout(KEY), **changes)


def of_destination(**changes: Any) -> Any:
    return changed(keys.destination("home"), **changes)


def of_confirmation(**changes: Any) -> Any:
    return changed(keys.destination_confirmed("home"), **changes)


def first(life: Life, kind: str, ending: str) -> Row:
    found = (one for one in life.town.table.items if one[0].startswith(kind) and one[1].endswith(ending))
    pk, sk = next(found)
    return {"pk": pk, "sk": sk}


def at(kind: str, ending: str, **changes: Any) -> Any:
    return lambda life: changed(first(life, kind, ending), **changes)(life)


def also_banked(life: Life) -> None:
    match = life.town.row(first(life, "BANK_LINE#", "MATCH"))
    order = "deposit-of-alice-0000"
    life.town.put({**match, **keys.banked(order), "order": order})


PAID, LIMBO = PATHS["payout paid"], PATHS["payout in LIMBO"]
GIVEN_BACK, CONFIRMED = PATHS["payout given back"], PATHS["payout confirmed"]
ON = f"PAYOUT#{KEY}"
FAULTS: dict[str, tuple[tuple[str, ...], Any, str]] = {
    "no row": ((), gone("PAYOUT#", "PAYOUT"), f"{ON}: has entries, decisions, lines or a reference"),
    "no reservation": (
        (),
        gone("ENTRIES#alice", "payout-reserve"),
        f"{ON}: has no entry payout-reserve of 4820",
    ),
    "no payment": (PAID, gone("ENTRIES#external", "payout-pay"), f"{ON}: has no entry payout-pay of 4820"),
    "not paid": (PAID, of_payout(paid_at=timestamp(NOW)), f"{ON}: has no entry payout-pay"),
    "other account": ((), of_payout(account="bob"), f"{ON}: its content is not that of its request_hash"),
    "other iban": ((), of_payout(iban=IBANS[1]), "DESTINATION#home: a payout goes to another bank account"),
    "other holder": ((), of_payout(holder="Mallory"), f"{ON}: has no entry payout-reserve"),
    "other reference": ((), of_payout(reference="A" * 32), f"{ON}: its reference is not that of its key"),
    "no reference": ((), gone("PAYOUT_REFERENCE#", "REFERENCE"), f"{ON}: no row leads from its reference"),
    "status": ((), of_payout(status="SENT"), f"{ON}: its status is SENT"),
    "barred": (CONFIRMED, of_payout(trouble="none"), f"{ON}: is CONFIRMED, but has trouble"),
    "missing": (CONFIRMED, of_payout(debit_line=None), f"{ON}: is CONFIRMED, but has no debit_line"),
    "not listed": ((), of_payout(gsi1pk=None, gsi1sk=None), f"{ON}: is listed in None, but should be in"),
    "listed at rest": (
        CONFIRMED,
        of_payout(gsi1pk="PAYOUTS#0", gsi1sk=timestamp(NOW)),
        f"{ON}: is listed in PAYOUTS#0, but should be in None",
    ),
    "case not listed": (LIMBO, of_payout(gsi1pk=None, gsi1sk=None), "should be in PAYOUT_CASES"),
    "sent without a trace": (PAID, of_payout(attempts=0), f"{ON}: was sent 0 times"),
    "sent at two times": (
        PAID,
        of_payout(first_sent_at=timestamp(NOW)),
        f"{ON}: was sent once, at two times",
    ),
    "word": (PAID, of_payout(said=None), f"{ON}: said and said_at are none of the bank's last word"),
    "word of another status": (
        PATHS["payout accepted"],
        of_payout(said="never seen"),
        f"{ON}: is ACCEPTED, but the bank has said never seen",
    ),
    "never asked for": (
        (),
        of_payout(status="UNKNOWN"),
        f"{ON}: is UNKNOWN, but nothing was sent, and nobody asked for it again",
    ),
    "sequence": (PAID, of_payout(sequence=2), f"{ON}: its sequence is 2, but it has made 3 moves or more"),
    "times": (
        PAID,
        of_payout(paid_at="2026-01-01T00:00:00.000Z"),
        "paid_at is 2026-01-01T00:00:00.000Z, but",
    ),
    "uncounted case": (LIMBO, of_payout(cases=0), f"{ON}: has an open case, but counts none"),
    "no person has the suspense": (
        PATHS["payout in suspense"],
        of_payout(trouble=None),
        f"{ON}: its money is in suspense, without an open case",
    ),
    "in suspense and given back": (
        GIVEN_BACK,
        of_payout(in_suspense=1),
        f"{ON}: its money is in suspense, but given back",
    ),
    "one line twice": (
        PATHS["payout returned"],
        lambda life: of_payout(return_line=life.state().debit_line)(life),
        f"{ON}: has one line as its debit and its return",
    ),
    "no approval": (
        PATHS["payout decided paid"],
        gone("PAYOUT_CASE#", "APPROVED"),
        f"{ON}: its decision has no approval on record",
    ),
    "no approval to give back": (
        GIVEN_BACK,
        gone("PAYOUT_CASE#", "APPROVED"),
        "its money is given back to alice, without an approval on record",
    ),
    "given back to another account": (
        GIVEN_BACK,
        of_payout(given_back_to="carol"),
        "its money is given back to carol, without an approval on record",
    ),
    "given back at no time": (
        GIVEN_BACK,
        of_payout(given_back_at=None),
        f"{ON}: given_back_at and given_back_to are not there together",
    ),
    "no approval to ask": (
        PATHS["payout asked for again"],
        gone("PAYOUT_CASE#", "APPROVED"),
        "it is asked for again, without an approval on record",
    ),
    "no proposal": (
        PATHS["payout decided paid"],
        gone("PAYOUT_CASE#", "PROPOSED#paid"),
        f"{ON}: paid is approved for its case 1, but was never proposed so",
    ),
    "one person": (
        PATHS["payout decided paid"],
        at("PAYOUT_CASE#", "APPROVED", approved_by="arn:aws:iam::1:user/ADA"),
        "approved_by is not another person",
    ),
    "one person on the row": (
        PATHS["payout decided paid"],
        lambda life: of_payout(decided={**(life.state().decided or {}), "approved_by": "x/ada"})(life),
        f"{ON}: PAYOUT is malformed: approved_by is not another person",
    ),
    "contradiction on the row alone": (
        PATHS["payout decided paid"],
        lambda life: of_payout(decided={**(life.state().decided or {}), "contradicts": "yes"})(life),
        f"{ON}: its decision has no approval on record",
    ),
    "contradiction that is none": (
        PATHS["payout decided not paid"],
        lambda life: of_payout(decided={**(life.state().decided or {}), "contradicts": "no"})(life),
        f"{ON}: PAYOUT is malformed: contradicts is neither yes nor absent",
    ),
    "contradiction of the approval alone": (
        PATHS["payout decided paid"],
        at("PAYOUT_CASE#", "APPROVED", contradicts="yes"),
        f"{ON}: its decision has no approval on record",
    ),
    "contradiction of no proposal": (
        PATHS["payout proposed"],
        at("PAYOUT_CASE#", "PROPOSED#paid", contradicts="yes"),
        "its key is not that of its case, digest, verdict, account and contradicts",
    ),
    "returned unpaid": (
        PATHS["payout returned"],
        of_payout(paid_at=None),
        f"{ON}: is RETURNED, but has no paid_at",
    ),
    "decision without its effect": (
        PATHS["payout decided paid"],
        lambda life: of_payout(decided={**(life.state().decided or {}), "verdict": "give-back"})(life),
        f"{ON}: two persons have decided give-back, which did not happen",
    ),
    "decision of a later case": (
        PATHS["payout decided paid"],
        lambda life: of_payout(decided={**(life.state().decided or {}), "case": "2"})(life),
        f"{ON}: case 2 is decided, and the last one is 1",
    ),
    "decided but open": (
        PATHS["payout closed"],
        of_payout(trouble="again", gsi1pk=keys.PAYOUT_CASES, gsi1sk=timestamp(NOW)),
        f"{ON}: its case 1 is decided, but open",
    ),
    "trace of a decision": (
        PATHS["payout asked for again"],
        of_payout(decided=None),
        f"{ON}: has no decision, but the trace of one",
    ),
    "decision about no case": (
        PATHS["payout proposed"],
        of_payout(cases=0),
        f"{ON}: a decision is about its case 1, but it has had 0",
    ),
    "no match": (CONFIRMED, gone("BANK_LINE#", "MATCH"), f"{ON}: its bank's line 6d"),
    "match of another side": (
        CONFIRMED,
        at("BANK_LINE#", "MATCH", side="in"),
        "is matched with it, which it does not have so",
    ),
    "match without a half": (
        PATHS["payout returned"],
        of_payout(return_line=None),
        f"{ON}: a bank's line 7e",
    ),
    "line to an order, too": (
        CONFIRMED,
        also_banked,
        "ACCOUNT#alice: the match of its order deposit-of-alice-0000 has only the row of the order",
    ),
    "line that does not name it": (
        CONFIRMED,
        at("BANK_LINE#", "LINE", references={"B" * 32}),
        f"is matched with {ON}, which it does not name",
    ),
    "no line": (CONFIRMED, gone("BANK_LINE#", "LINE"), f"is matched with {ON}, but is no such line"),
    "line not listed": (
        CONFIRMED,
        gone("PAYOUT_LINE#", "LINE"),
        "names a payout, but is not listed for the payouts",
    ),
    "listed line is none": (
        CONFIRMED,
        at("BANK_LINE#", "LINE", references=None),
        "is listed for the payouts, but no such line names one",
    ),
    "line never booked": (
        CONFIRMED,
        gone("BANK_LINE#", "MATCH"),
        "is off the payouts' list, but was never booked",
    ),
    "line listed elsewhere": (
        CONFIRMED,
        at("PAYOUT_LINE#", "LINE", gsi1pk="PAYOUT_LINES", gsi1sk="2026-01-01"),
        "is not listed among the lines to book, or refused",
    ),
    "never confirmed": ((), gone("DESTINATION#", "CONFIRMED"), "no other person has confirmed it"),
    "confirmed by the same": (
        (),
        of_confirmation(confirmed_by="arn:aws:sts::1:assumed-role/x/Ada"),
        "DESTINATION#home: one person added and confirmed it",
    ),
    "other account confirmed": (
        (),
        of_confirmation(iban=IBANS[1]),
        "DESTINATION#home: another bank account was confirmed",
    ),
    "other payer confirmed": (
        (),
        of_confirmation(account="bob"),
        "DESTINATION#home: another bank account was confirmed",
    ),
    "no destination": (
        (),
        gone("DESTINATION#", "DESTINATION"),
        "DESTINATION#home: is confirmed or frozen, or",
    ),
    "another customer's": (
        (),
        of_destination(account="bob"),
        "; another account pays it: payout-2026-000101",
    ),
    "paid too early": (
        (),
        of_confirmation(payable_from="2030-01-01T00:00:00.000Z"),
        "which was reserved before 2030-01-01T00:00:00.000Z",
    ),
    "paid after the freeze": (
        (),
        of_destination(frozen_at="2026-01-01T00:00:00.000Z", frozen_by="x"),
        "which was reserved after it was frozen",
    ),
    "no longer frozen": (
        ("frozen",),
        of_destination(frozen_at=None, frozen_by=None),
        "DESTINATION#home: is not frozen, but a person has frozen it",
    ),
    "freeze of another time": (
        ("frozen",),
        at("DESTINATION#", "Z", posted_at=timestamp(NOW)),
        "no row of its kind has such a key",
    ),
    "freeze without an order": (
        ("frozen",),
        gone("DESTINATION#", "Z"),
        "without an order of this time and person",
    ),
    "freeze by nobody": (("frozen",), at("DESTINATION#", "Z", by=""), "names no person"),
    "payee of another month": (
        (),
        of_destination(gsi1pk="PAYOUT_ORDERS#2026-01"),
        "is not listed among the orders of its time",
    ),
    "confirmation of another month": (
        (),
        of_confirmation(gsi1sk="2026-01-01T00:00:00.000Z"),
        "is not listed among the orders of its time",
    ),
    "decision of another time": (
        PATHS["payout proposed"],
        at("PAYOUT_CASE#", "PROPOSED#paid", gsi1sk="2026-01-01T00:00:00.000Z"),
        "is not listed among the orders of its time",
    ),
    "last payout": (
        (),
        of_destination(last_payout="payout-2026-000999"),
        "DESTINATION#home: its last payout is payout-2026-000999",
    ),
    "count of the day": (
        (),
        at("PAYOUT_DAY#", "", reserved=4_819),
        "differs from the money reserved by 1 (minor units)",
    ),
    "no count of the day": ((), gone("PAYOUT_DAY#", ""), "differs from the money reserved by 4820"),
}


@pytest.mark.parametrize(("acts", "corrupt", "fault"), FAULTS.values(), ids=FAULTS)
def test_a_corruption_of_one_row_is_found(acts: tuple[str, ...], corrupt: Any, fault: str) -> None:
    life = town_of(*acts)
    corrupt(life)

    findings = reconciled(life.town.table.items)

    assert any(fault in one for one in findings.faults), findings.faults


def entry(step: str, debit: str, credit: str) -> Row:
    account, side = (debit, "debit") if debit == "alice" else (credit, "credit")
    posted_at = timestamp(NOW)
    row: Row = {"step": step, "posted_at": posted_at, "debit": debit, "credit": credit, "side": side}
    row |= {"amount": 900, "currency": "EUR", "request_hash": "0" * 64}
    return {**keys.entry(account, posted_at, "payout-forged-00001", step), **row}


@pytest.mark.parametrize(
    "forged",
    [
        entry("payout-return", "external:EUR", "alice"),
        entry("payout-refuse", "transit:EUR", "alice"),
        entry("payout-give-back", "suspense:EUR", "alice"),
    ],
    ids=lambda row: str(row["step"]),
)
def test_money_from_a_payout_without_a_row_is_found(forged: Row) -> None:
    life = town_of()
    life.town.put(forged)
    alice = life.town.row(keys.account("alice"))
    life.town.put(alice | {"available": alice["available"] + 900})

    assert reconciled(life.town.table.items).faults == [
        "PAYOUT#payout-forged-00001: has entries, decisions, lines or a reference, but no sound row"
    ]


@pytest.mark.parametrize(
    ("step", "debit", "credit"),
    [
        ("payout-reserve", "alice", "external:EUR"),
        ("payout-reserve", "alice", "transit:JPY"),
        ("payout-pay", "transit:EUR", "alice"),
        ("payout-return", "suspense:EUR", "alice"),
        ("payout-return", "transit:EUR", "alice"),
        ("payout-refuse", "transit:EUR", "escrow:payout-forged-00001"),
        ("payout-mint", "external:EUR", "alice"),
    ],
)
def test_an_entry_between_wrong_accounts_is_malformed(step: str, debit: str, credit: str) -> None:
    life = town_of()
    life.town.put(entry(step, debit, credit))

    faults = reconciled(life.town.table.items).faults

    assert any("is malformed" in one and "moves money from" in one for one in faults), faults


def test_a_payout_whose_next_look_is_far_ahead_is_reported() -> None:
    life = town_of()
    of_payout(gsi1sk="2030-01-01T00:00:00.000Z")(life)

    assert reconciled(life.town.table.items).ahead == [f"{ON}: the next look is at 2030-01-01T00:00:00.000Z"]


def test_a_bank_line_that_names_an_unknown_payout_is_accepted() -> None:
    life = town_of(*CONFIRMED)
    gone("PAYOUT_LINE#", "LINE")(life)
    gone("BANK_LINE#", "MATCH")(life)
    at("BANK_LINE#", "LINE", references={"C" * 32})(life)

    faults = reconciled(life.town.table.items).faults

    assert not any(one.startswith("PAYOUT_LINE#") for one in faults), faults


def test_many_payouts_spooled_to_disk_are_proven() -> None:
    town = Town()
    town.open("alice", 2_000_000)
    lived(town, PAYOUT)
    for number in range(1_050):
        if number % 15 == 14:
            town.tick(86_400)
        one = Payout(
            key=f"payout-many-{number:06}", account="alice", amount=7, currency="EUR", destination="home"
        )
        Life(town, one).again()

    findings = reconciled(town.table.items)

    assert (findings.faults, findings.unproven, findings.in_flight) == ([], [], 0)
    assert findings.conserved


# A payout that moves while the proof scans


def scanned(life: Life, act: str, position: int, *, backwards: bool, sees_new: bool) -> Iterator[Row]:
    """Yield the table's rows, and let `act` happen before the row at `position`."""
    known = sorted(life.town.table.items, reverse=backwards)
    for number, (pk, sk) in enumerate(known):
        if number == position:
            assert life.act(act)
        yield life.town.row({"pk": pk, "sk": sk})
    for pk, sk in life.town.table.items.keys() - {*known} if sees_new else ():
        yield life.town.row({"pk": pk, "sk": sk})


def proven_during(life: Life, rows: Iterator[Row]) -> Findings:
    return reconcile(rows, partial(table_scan.look, readable(life.town.table), began=life.town.now))


MOVING = [(path[:-1], path[-1]) for path in PATHS.values() if path]


@pytest.mark.parametrize(("acts", "act"), [((), "again"), *MOVING], ids=str)
@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize("sees_new", [False, True], ids=["old rows", "and new rows"])
def test_a_move_during_the_scan_is_not_a_fault(
    acts: tuple[str, ...], act: str, backwards: bool, sees_new: bool
) -> None:
    before = town_of(*acts)
    if act == "again":
        before.payout = replace(PAYOUT, key="payout-2026-000102")
    for position in range(len(before.town.table.items)):
        life = copied(before)
        findings = proven_during(life, scanned(life, act, position, backwards=backwards, sees_new=sees_new))

        assert (findings.faults, findings.unproven) == ([], []), position
        assert findings.conserved, position


def test_a_payout_that_moves_during_every_look_is_unproven() -> None:
    life = town_of("hear unknown")
    gone("PAYOUT_REFERENCE#", "REFERENCE")(life)
    store = readable(life.town.table)

    def moving(key: Row, read: Any = Store.read) -> Row | None:
        if key == keys.payout(KEY):
            life.town.put(life.town.row(key) | {"gsi1sk": timestamp(life.now())})
        found: Row | None = read(store, key)
        return found

    store.read = moving  # type: ignore[method-assign]
    findings = table_scan.check(store)

    assert findings.unproven == [f"{ON}: moved during every look; try again"]
    assert payout_look.LOOKS_MAX > 1


def test_a_freeze_whose_order_vanishes_after_the_scan_is_named() -> None:
    life = town_of("frozen")
    of_destination(frozen_at=None, frozen_by=None)(life)

    def rows() -> Iterator[Row]:
        yield from [life.town.row({"pk": pk, "sk": sk}) for pk, sk in sorted(life.town.table.items)]
        gone("DESTINATION#", "Z")(life)

    assert any("is not frozen, but a person" in one for one in proven_during(life, rows()).faults)


def test_freezing_a_payee_during_the_second_look_causes_no_fault() -> None:
    life = town_of()
    store = readable(life.town.table)
    read, first = store.read, iter([keys.destination("home")])

    def freezing(key: Row) -> Row | None:
        row = read(key)
        if key == keys.destination("home") and next(first, None):
            assert life.act("frozen")
        return row

    store.read = freezing  # type: ignore[method-assign]
    paid = payout_rows.paid_to(payout_rows.payout(life.town.row(keys.payout(KEY))))
    scanned = Difference(keys.destination("home"), scanned=(Destination("home", payouts=[paid]),))

    assert payout_look.look(WatchedStore(store, JUDGING, unwatched), scanned) is Look.AGREES
