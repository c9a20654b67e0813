"""Damage by a thief with one function's role to a stage that pays out: see `tests/infra/attacks.py`.

Money was made if customers have, and the bank has paid, more than was deposited; it was stolen if the bank
has paid to the thief.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache

from settlement.bank import record
from settlement.bank.matching import BankLine, Recorded
from settlement.bank.statement import Side
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import Transfer
from settlement.core.model import accounts
from settlement.core.model.timestamps import timestamp
from settlement.payouts import booked, destination, lines, writes
from settlement.payouts.decision import Verdict
from settlement.payouts.destination import Destination, paid_to
from settlement.payouts.payout import Payout, State, Status, Word
from settlement.payouts.port import Accepted, Found, NeverSeen, Refused
from settlement.proof import Findings
from tests.infra.attacks import Denied, End, Policy, Thief, is_denied
from tests.infra.evaluator import policy
from tests.infra.stack import PAYS_OUT
from tests.proof.client import reconciled
from tests.proof.payouts.life import ADA, BEA, FILE, IBANS, LIMITS, Life, ScriptedBank
from tests.proof.town import CONFIG, Town
from tests.world.ledger import ROW_KEYS

DEPOSIT, AMOUNT, LOOT = 100_000, 4_820, 45_000
OF_THE_THIEF = "GB29NWBK60161331926819"
HOURS = 12 * 24

WAITING, PAID, REFUSED = (
    Payout(
        key=f"payout-2026-00010{number}",
        account="alice",
        amount=AMOUNT,
        currency="EUR",
        destination=f"landlord-{number}",
    )
    for number in range(1, 4)
)
FORGED = replace(WAITING, key="payout-2026-000900", amount=LOOT)


@dataclass
class PayingBank(ScriptedBank):
    """A bank that refuses one reference and pays all other requests."""

    payments: dict[str, tuple[int, str]] = field(default_factory=dict)

    def request(self, state: State) -> bytes:
        return json.dumps([state.payout.reference, state.payout.amount, state.iban]).encode()

    def submit(self, state: State, body: bytes) -> Accepted | Refused:
        reference, amount, iban = json.loads(body)
        if reference == REFUSED.reference:
            return Refused("closed")
        self.payments.setdefault(reference, (amount, iban))
        return Accepted()

    def find(self, state: State) -> Found | NeverSeen:
        if state.payout.reference == REFUSED.reference:
            return Found(Word.REFUSED, "closed")
        return Found(Word.PAID, "") if state.payout.reference in self.payments else NeverSeen()


class Scene:
    """Three payouts: not sent yet, paid by the bank, and refused by it."""

    def __init__(self) -> None:
        self.town = Town(row_keys=ROW_KEYS)
        self.town.open("alice", DEPOSIT)
        self.town.open("eve", 0)
        self.bank = PayingBank()
        for payout in (PAID, REFUSED):
            life = self.life(payout)
            life.reserve()
            life.follower().look(payout.key)
        self.town.tick(86_400)
        self.look()
        self.life(WAITING).reserve()
        found = [self.state(one).status for one in (WAITING, PAID, REFUSED)]
        assert found == [Status.RESERVED, Status.PAID, Status.REFUSED]

    def life(self, payout: Payout) -> Life:
        return Life(self.town, payout, bank=self.bank)

    def state(self, payout: Payout) -> State:
        return self.life(payout).state()

    def look(self) -> None:
        """Follow each listed payout and line, as FollowPayouts does each minute; ignore failures."""
        follower = self.life(WAITING).follower()
        for pk, _ in list(self.town.table.items):
            kind, _, subject = pk.partition("#")
            with suppress(Exception):
                if kind == "PAYOUT":
                    follower.look(subject)
                elif kind == "PAYOUT_LINE":
                    follower.book_listed(subject)

    @property
    def balances(self) -> int:
        return sum(int(self.town.row(keys.account(name))["available"]) for name in ("alice", "eve"))

    @property
    def paid(self) -> int:
        return sum(amount for amount, _ in self.bank.payments.values())

    def booked(self) -> int:
        """The bank's payments by the books, as the comparison with a statement reads them."""
        unreadable = list[str]()
        moved = [order for order, _ in booked.orders(self.town.store, CONFIG, unreadable.append)]
        assert not unreadable
        return sum(order.amount if order.side is Side.OUT else -order.amount for order in moved)

    def has_paid_the_thief(self) -> bool:
        return any(iban == OF_THE_THIEF for _, iban in self.bank.payments.values())

    def findings(self, *, signed: bool) -> Findings:
        return reconciled(self.town.rows(), ROW_KEYS if signed else None)

    def thief(self, own: Policy, *, rehearses: bool = False) -> Thief:
        return Thief(self, self.town.table, "in-memory", own, rehearses)


def played(own: Policy, attack: "Attack") -> End:
    """Attack with a policy; return the result, days later."""
    scene = Scene()
    try:
        attack(scene.thief(own))
    except Denied:
        return End.DENIED
    for _ in range(HOURS // 6):
        scene.town.tick(6 * 3_600)
        scene.look()
    if scene.balances + scene.paid <= DEPOSIT and not scene.has_paid_the_thief():
        return End.IN_VAIN
    if not scene.findings(signed=False).conserved:
        return End.NAMED
    if not scene.findings(signed=True).conserved:
        return End.UNSIGNED
    return End.UNSEEN if scene.booked() == scene.paid else End.COMPARED


@cache
def ends(function: str) -> "Mapping[Attack, End]":
    own, scene = policy(PAYS_OUT, function), Scene()
    denied = {attack for attack in ATTACKS if is_denied(scene.thief(own, rehearses=True), attack)}
    return {attack: End.DENIED if attack in denied else played(own, attack) for attack in ATTACKS}


def _of_the_thief(scene: Scene, payout: Payout) -> State:
    place = Destination(
        id=payout.destination,
        account=payout.account,
        iban=OF_THE_THIEF,
        holder="Eve Example",
        added_by=ADA.by,
        added_at=timestamp(scene.town.now),
    )
    return writes.reserved(payout, place, scene.town.now)


def _named(payout: Payout) -> Row:
    return {**keys.payout_reference(payout.reference), "key": payout.key}


def forges_a_payout(thief: Thief) -> None:
    """Puts a payout to the thief that was never reserved."""
    thief.put(_named(FORGED))
    thief.put(_of_the_thief(thief.world, FORGED).to_row())


def forges_a_payout_and_its_entry(thief: Thief) -> None:
    """Puts a never reserved payout to the thief, with an entry of its reservation."""
    _forges_an_entry(thief, FORGED)
    forges_a_payout(thief)


def _forges_an_entry(thief: Thief, payout: Payout) -> None:
    state = _of_the_thief(thief.world, payout)
    moved = Transfer(debit=payout.account, credit=accounts.transit("EUR"), amount=payout.amount)
    told = {"paid_to": paid_to(payout.destination, state.iban, state.holder)}
    entry = writes._entry(payout, writes.RESERVE, moved, thief.world.town.now, **told)
    thief.put(entry.parameters["Item"])


def redirects_a_payout(thief: Thief) -> None:
    """Changes the bank account of a payout that is not sent."""
    thief.change(keys.payout(WAITING.key), iban=OF_THE_THIEF)


def replaces_a_payout(thief: Thief) -> None:
    """Replaces an unsent payout by one to the thief's bank account."""
    state = thief.world.state(WAITING)
    thief.put(replace(state, iban=OF_THE_THIEF).to_row())


def replaces_a_payout_and_its_entry(thief: Thief) -> None:
    """Replaces an unsent payout and its entry by a payout to the thief."""
    state = thief.world.state(WAITING)
    place = keys.entry("alice", state.reserved_at, WAITING.key, f"payout-{writes.RESERVE}")
    told = paid_to(WAITING.destination, OF_THE_THIEF, state.holder)
    thief.put(thief.world.town.row(place) | {"paid_to": told})
    replaces_a_payout(thief)


def raises_a_payout(thief: Thief) -> None:
    """Replaces an unsent payout by one with a larger amount."""
    more = replace(thief.world.state(WAITING), payout=replace(WAITING, amount=LOOT))
    thief.put(more.to_row())


def sends_a_payout_again(thief: Thief) -> None:
    """Replaces a paid payout by one that was never sent."""
    state = thief.world.state(PAID)
    again = State(
        payout=PAID,
        iban=state.iban,
        holder=state.holder,
        status=Status.RESERVED,
        sequence=state.sequence,
        reserved_at=state.reserved_at,
        listed_at=timestamp(thief.world.town.now),
    )
    thief.put(again.to_row())


def refunds_a_refused_payout_again(thief: Thief) -> None:
    """Changes a refused payout into one whose outcome is unknown."""
    now = timestamp(thief.world.town.now)
    listed = keys.payouts_index(REFUSED.key, now)
    thief.change(keys.payout(REFUSED.key), status=Status.UNKNOWN.value, **listed, remove=["ended_at"])


def replaces_a_refused_payout(thief: Thief) -> None:
    """Replaces a refused payout by one whose outcome is unknown."""
    state = thief.world.state(REFUSED)
    listed = timestamp(thief.world.town.now)
    thief.put(replace(state, status=Status.UNKNOWN, ended_at=None, listed_at=listed).to_row())


def forges_a_return(thief: Thief) -> None:
    """Puts the line of a return that the bank never booked."""
    own, day = thief.world.life(PAID), timestamp(thief.world.town.now)[:10]
    line = BankLine(
        identity=own.identity(Side.IN),
        account=IBANS[1],
        currency="EUR",
        amount=AMOUNT,
        side=Side.IN,
        booked=day,
        valued=day,
        bank_reference="B-1",
        reference=PAID.reference,
        returns="AC04",
        statement="S-1",
        file="day.xml",
        at=9,
    )
    recorded = Recorded(line, 0, frozenset({PAID.reference.lower()}))
    for write in (record.line(recorded, FILE), lines.listed(recorded)):
        assert write
        thief.put(write.parameters["Item"])


def decides_a_case(thief: Thief) -> None:
    """Makes a case of a paid payout, and puts two persons' decision that the bank has not paid it."""
    world = thief.world
    listed = timestamp(world.town.now)
    case = replace(world.state(PAID), trouble="no line", cases=1, listed_at=listed)
    told = {"verdict": Verdict.NOT_PAID.value, "digest": case.digest, "reason": "x", "contradicts": "yes"}
    by = {"by": ADA.by, "approved_by": BEA.by, "approved_reason": "x", "posted_at": listed}
    thief.put({**keys.payout_approved(PAID.key, 1, case.digest), **told, **by})
    thief.put(case.to_row())


def confirms_a_destination(thief: Thief) -> None:
    """Puts a confirmed bank account of the thief; then a payout goes to it."""
    town = thief.world.town
    own = replace(FORGED, destination="of-the-thief")
    given = {"id": own.destination, "account": "alice", "iban": OF_THE_THIEF, "holder": "Eve Example"}
    added = destination.add(given | {"reason": "rent"}, ADA, town.now)
    thief.put(added.parameters["Item"])
    place = Destination.from_rows(added.parameters["Item"], None)
    confirmed = destination.confirm(place, vars(place), BEA, LIMITS.rest, town.now)
    thief.put(confirmed.parameters["Item"])
    town.tick(LIMITS.rest_seconds + 1)
    with suppress(Exception):
        thief.world.life(own).again()


Attack = Callable[[Thief], None]
ATTACKS: tuple[Attack, ...] = (
    forges_a_payout,
    forges_a_payout_and_its_entry,
    redirects_a_payout,
    replaces_a_payout,
    replaces_a_payout_and_its_entry,
    raises_a_payout,
    sends_a_payout_again,
    refunds_a_refused_payout_again,
    replaces_a_refused_payout,
    forges_a_return,
    decides_a_case,
    confirms_a_destination,
)
