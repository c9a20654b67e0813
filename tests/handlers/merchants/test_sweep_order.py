import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from handlers import _dependencies
from settlement.core.ledger import keys
from settlement.core.model.errors import AccountNotEmpty, AccountNotFound, InvalidRequest, StoreUnavailable
from settlement.core.model.timestamps import timestamp
from settlement.core.store.dynamodb import Store
from settlement.merchants import sweeper
from tests.handlers.conftest import Calls
from tests.handlers.merchants.conftest import ENTRY, NET
from tests.world.constants import CLAIMED_AT, KEY, ORDER
from tests.world.environment import NOW
from tests.world.functions import Context
from tests.world.orders import request

SHOP = "merchant.shop"


@pytest.fixture
def backlog(paid: Calls) -> Calls:
    """Thirty unswept releases in distinct minutes and several partitions."""
    entry = paid.ledger.row(ENTRY)
    assert entry
    for number in range(1, 30):
        at = timestamp(NOW + timedelta(minutes=number))
        paid.ledger.put(entry | {"posted_at": at} | keys.entry(SHOP, at, f"{KEY}-{number}", "release"))
    assert len({row["pk"] for row in paid.ledger.rows() if row["pk"].startswith("ENTRIES#merchant.")}) > 5
    return paid


def sweep(calls: Calls, **more: Any) -> dict[str, Any]:
    return calls.order("sweep", {"account": SHOP, "by": ORDER["by"]} | more)


def time_runs_out(monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    def instants() -> Iterator[datetime]:
        for number in range(1000):
            yield NOW + timedelta(seconds=number * seconds)

    clock = instants()
    monkeypatch.setattr(_dependencies, "now", lambda: next(clock))


def test_a_sweep_order_makes_an_unswept_release_available_once(paid: Calls) -> None:
    before = {(row["pk"], row["sk"]): row for row in paid.ledger.rows()}

    told = sweep(paid)

    assert told == {
        "account": SHOP,
        "currency": "EUR",
        "folded": "47.72",
        "minutes": [{"minute": CLAIMED_AT[:16], "folded": "47.72"}],
        "unreadable": [],
        "more": False,
        "from": None,
    }
    assert paid.account(SHOP)["available"] == NET
    after = paid.ledger.rows()
    changed = {row["pk"] for row in after if before.get((row["pk"], row["sk"])) != row}
    assert changed == {f"ACCOUNT#{SHOP}", f"SWEPT#{ENTRY['pk']}"}
    with paid.writes_nothing():
        assert sweep(paid) == told | {"folded": "0.00", "minutes": []}


def test_a_call_with_time_sweeps_a_whole_backlog(backlog: Calls) -> None:
    told = sweep(backlog)

    assert (told["more"], len(told["minutes"])) == (False, 30)
    assert backlog.account(SHOP)["available"] == 30 * NET


def test_already_swept_minutes_are_not_read_again(backlog: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few calls must skip years of swept history."""
    sweep(backlog)
    monkeypatch.setattr(sweeper, "fold", lambda *_: pytest.fail("the minute is swept"))

    assert sweep(backlog)["minutes"] == []


@pytest.mark.parametrize("seconds", [1, 2, 3])
def test_a_call_without_time_returns_where_to_continue(
    backlog: Calls, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    come, minutes, calls = dict[str, str](), list[str](), 0
    while True:
        time_runs_out(monkeypatch, seconds)
        told = sweep(backlog, **come)
        calls += 1
        minutes += [one["minute"] for one in told["minutes"]]
        assert told["minutes"]
        if not told["more"]:
            break
        assert come.get("from") != told["from"]
        come = {"from": told["from"]}

    assert calls == {1: 10, 2: 15, 3: 30}[seconds]
    assert len(set(minutes)) == len(minutes) == 30
    assert backlog.account(SHOP)["available"] == 30 * NET


def test_a_sweep_repeated_after_a_failure_counts_no_release_twice(
    backlog: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    transact, left = Store.transact, iter(range(7))

    def failing(self: Store, *writes: Any) -> Any:
        if next(left, None) is None:
            raise StoreUnavailable("DynamoDB: down")
        return transact(self, *writes)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "transact", failing)
        with pytest.raises(StoreUnavailable):
            sweep(backlog)
    assert backlog.account(SHOP)["available"] == 7 * NET

    assert len(sweep(backlog)["minutes"]) == 23
    assert backlog.account(SHOP)["available"] == 30 * NET


def test_a_late_release_in_a_swept_minute_is_swept_too(backlog: Calls) -> None:
    sweep(backlog)
    entry = backlog.ledger.row(ENTRY)
    assert entry
    backlog.ledger.put(entry | {"sk": f"{entry['sk']}-late"})

    assert sweep(backlog)["minutes"] == [{"minute": CLAIMED_AT[:16], "folded": "47.72"}]


def test_a_sweep_since_a_minute_skips_earlier_minutes(backlog: Calls) -> None:
    since = timestamp(NOW + timedelta(minutes=10))[:16]

    assert sweep(backlog, since=since)["minutes"][0]["minute"] == since
    assert backlog.account(SHOP)["available"] == 20 * NET


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"account": "alice"}, "account: must be a merchant's"),
        ({"account": 7}, "account: must be a merchant's"),
        ({"account": "merchant.a b"}, "account: must be a merchant's"),
        ({"account": "merchant." + "x" * 64}, "account: must be a merchant's"),
        ({"since": "yesterday"}, "since: must be a day or a minute"),
        ({"since": None}, "since: must be a day or a minute"),
        ({"from": "16#2026-11-22T06:04"}, "from: must be that of an answer"),
        ({"from": "3#~"}, "from: must be that of an answer"),
        ({"from": 3}, "from: must be that of an answer"),
        ({"reason": "x"}, "reason: unknown field"),
    ],
)
def test_a_bad_order_names_its_field_and_writes_nothing(
    paid: Calls, change: dict[str, Any], message: str
) -> None:
    with paid.writes_nothing(), pytest.raises(InvalidRequest, match=f"^{message}"):
        sweep(paid, **change)


def test_sweeping_a_merchant_that_does_not_exist_returns_404(paid: Calls) -> None:
    answer = paid.handlers["TakeOrder"](request("sweep", {"account": "merchant.gone"}, "ada"), Context())

    assert answer["statusCode"] == 404
    assert json.loads(answer["body"])["error"] == AccountNotFound.__name__


CLOSE = {"key": "close-merchant-0001", "order": "close", "account": SHOP, "reason": "it has left"}


def test_a_merchant_with_unswept_money_is_not_closed(paid: Calls) -> None:
    with pytest.raises(AccountNotEmpty, match=r"^account: the account still has money$"):
        paid.order("close", CLOSE | {"by": ORDER["by"]})

    assert paid.account(SHOP)["available"] == NET
    assert "closed_at" not in paid.account(SHOP)


def test_a_merchant_is_closed_after_its_money_is_withdrawn(paid: Calls) -> None:
    sweep(paid)
    paid.ledger.open(SHOP, 0)

    closed = paid.order("close", CLOSE | {"by": ORDER["by"]})

    assert closed["account"]["closed_at"]
    assert paid.order("close", CLOSE | {"by": ORDER["by"]}) == closed


def test_closing_a_merchant_is_refused_if_sweeping_takes_too_long(
    backlog: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_runs_out(monkeypatch, seconds=2)

    with pytest.raises(AccountNotEmpty, match="it still receives releases"):
        backlog.order("close", CLOSE | {"by": ORDER["by"]})

    assert "closed_at" not in backlog.account(SHOP)
