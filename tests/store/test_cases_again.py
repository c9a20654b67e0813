from collections.abc import Callable, Iterable, Iterator

import pytest

from settlement.core.ledger import keys
from settlement.core.model.status import Step
from settlement.proof import Difference, Look, second_look
from settlement.proof.watch import unwatched
from settlement.proof.watched_store import WatchedStore
from tests.store.rows import OTHER, another
from tests.world.saga import KEY, RETRY, Saga


class Listing(WatchedStore):
    """A table with scripted index listings and an action at each listing."""

    def __init__(self, saga: Saga, listed: Callable[[Iterable[str]], Iterable[str]]) -> None:
        super().__init__(saga.ledger.store, "looking", unwatched)
        self._listed, self.times = listed, 0

    def open_cases(self) -> Iterator[str]:
        self.times += 1
        return iter([*self._listed(list(super().open_cases()))])


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_look, "_PAUSE_SECONDS", 0)


def look(store: WatchedStore, *scanned: str) -> Look:
    """Look again at the payee's cases, of which the scan has met `scanned`."""
    return second_look._cases(store, Difference(keys.account("bob"), cases=scanned))


def as_it_is(saga: Saga) -> Listing:
    return Listing(saga, lambda listed: listed)


def count(saga: Saga, counted: int | None) -> None:
    """Set the payee's case count by hand."""
    row = saga.ledger.row(keys.account("bob"))
    assert row is not None
    row = {name: value for name, value in row.items() if name != "limbo_cases"}
    saga.ledger.put(row | ({} if counted is None else {"limbo_cases": counted}))


def test_the_second_look_finds_a_case_opened_since_the_scan(saga: Saga) -> None:
    saga.stuck(Step.RELEASE, last=Step.RELEASE)

    assert look(as_it_is(saga)) is Look.AGREES


def test_a_case_closed_since_the_scan_no_longer_counts(saga: Saga) -> None:
    saga.stuck(Step.RELEASE, last=Step.RELEASE)
    saga.resolve(RETRY)

    assert look(as_it_is(saga), KEY) is Look.AGREES


def test_a_case_that_blocks_another_account_does_not_count(saga: Saga) -> None:
    saga.stuck(Step.HOLD)

    count(saga, 1)

    assert look(as_it_is(saga), KEY) is Look.DISAGREES


@pytest.mark.parametrize("scanned", [(), (KEY,), (KEY, OTHER)])
@pytest.mark.parametrize("counted", [1, 3, 10_000])
def test_a_blocked_accounts_permanently_wrong_count_is_a_fault(
    saga: Saga, scanned: tuple[str, ...], counted: int
) -> None:
    saga.stuck(Step.RELEASE, last=Step.RELEASE)
    another(saga).enter()
    count(saga, counted)

    assert look(as_it_is(saga), *scanned) is Look.DISAGREES


@pytest.mark.parametrize("counted", [None, 0])
def test_a_case_missing_from_the_accounts_count_is_a_fault(saga: Saga, counted: int | None) -> None:
    saga.stuck(Step.RELEASE, last=Step.RELEASE)
    count(saga, counted)

    assert look(as_it_is(saga), KEY) is Look.DISAGREES


def test_a_deleted_account_with_an_open_case_is_a_fault(saga: Saga) -> None:
    saga.stuck(Step.RELEASE, last=Step.RELEASE)
    saga.ledger.delete(keys.account("bob"))

    assert look(as_it_is(saga), KEY) is Look.DISAGREES


@pytest.mark.parametrize("behind", range(2 * second_look.LOOKS_MAX - 1))
def test_the_second_look_waits_for_a_stale_index(saga: Saga, behind: int) -> None:
    """A count above the known cases is acceptable while the index may still list another."""
    saga.stuck(Step.RELEASE, last=Step.RELEASE)
    store = Listing(saga, lambda listed: listed if store.times > behind else [])

    assert look(store) is Look.AGREES
    assert store.times > behind


def test_cases_that_change_at_every_look_are_unproven(saga: Saga) -> None:
    """A settlement that re-enters LIMBO has a new case, so its row always differs."""
    saga.stuck(Step.RELEASE, last=Step.RELEASE)
    read = saga.ledger.store.read

    class Moving(Listing):
        def read(self, key: keys.Row) -> keys.Row | None:
            saga.resolve(RETRY)
            saga.enter()
            return read(key)

    assert look(Moving(saga, lambda listed: listed), KEY) is Look.MOVING


def test_a_count_that_matches_only_by_chance_is_a_fault(saga: Saga) -> None:
    """One case is uncounted; another opens between the reading of the cases and of the count."""
    saga.stuck(Step.RELEASE, last=Step.RELEASE)
    count(saga, 0)
    other, read = another(saga), saga.ledger.store.read

    class Lucky(Listing):
        def read(self, key: keys.Row) -> keys.Row | None:
            if other.state().stuck_step is None:
                other.enter()
            return read(key)

    store = Lucky(saga, lambda listed: listed)

    assert look(store, KEY) is Look.DISAGREES
    assert store.times > 2  # it has looked a second time, and known both cases
