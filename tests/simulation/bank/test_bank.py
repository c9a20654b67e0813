from collections.abc import Callable

import pytest

from settlement.bank import spool
from settlement.bank.matching import Kind
from settlement.bank.spool import Spool
from settlement.bank.statement import Line
from tests.simulation.bank.history import FAULTS, compared, faulty, findings_of, right

SEEDS, LONG = 300, 10_000
SEEDS_MAX = 3_000
"""Most histories in which a planted bug must show."""


def fault_of(seed: int) -> str | None:
    """Return what is wrong with the comparison of a seed's histories."""
    if found := list(findings_of(compared(right(seed)))):
        return f"seed {seed}: a right history has {found}"
    name, history = faulty(seed)
    told = sorted(findings_of(compared(history)))
    if name == "a statement forgotten":  # what it would explain is not explained
        told = [one for one in told if one[0] is not Kind.LEFT]
    return None if told == history.expected else f"seed {seed}: {name} is told as {told}"


def test_each_fault_is_told_and_right_statements_agree() -> None:
    assert {faulty(seed)[0] for seed in range(SEEDS)} == FAULTS.keys()
    assert [fault for seed in range(SEEDS) if (fault := fault_of(seed))] == []


@pytest.mark.long
def test_ten_thousand_histories_tell_each_fault_and_no_other() -> None:
    assert [fault for seed in range(LONG) if (fault := fault_of(seed))] == []


def changed(name: str, old: str, new: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Plant a bug in a statement of SQL."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        text = getattr(spool, name)
        assert old in text
        patch.setattr(spool, name, text.replace(old, new))

    return plant


def by_amount_alone(patch: pytest.MonkeyPatch) -> None:
    def connect(self: Spool, line: int, references: tuple[str, ...]) -> None:
        self._database.execute("INSERT OR IGNORE INTO edges SELECT ?, rowid FROM orders", (line,))

    patch.setattr(Spool, "_connect", connect)


def by_a_reused_id(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Line, "identity", property(lambda line: f"{line.account} {line.bank_reference}"))


PLANTED = {
    "matches by amount alone": by_amount_alone,
    "knows a line by an id that comes again": by_a_reused_id,
    "gives an order to two lines": changed("_TABLES", "entry INTEGER UNIQUE", "entry INTEGER"),
    "takes another amount": changed("_PAIR", "lines.amount = orders.amount", "1"),
    "takes a return for the payment": changed("_PAIR", "lines.side = orders.side", "1"),
    "takes another currency": changed("_PAIR", "lines.currency = orders.currency", "1"),
    "takes a day in any distance": changed("_PAIR", "<= ?", "<= 99 + ?"),
    "gives a line to the newest order": changed("_PAIR", "orders.day, orders.key", "orders.day DESC"),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[bug](monkeypatch)

    assert any(fault_of(seed) for seed in range(SEEDS_MAX))
