from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied
from settlement.core.model.settlement import Settlement
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status, Step
from settlement.core.policy import steps
from settlement.merchants import sweep, sweeps
from settlement.merchants.sweep import Span
from tests.unit.conditions import admits, applied
from tests.unit.states import account_row, row
from tests.unit.vectors import CONFIG, SETTLEMENT, slots
from tests.world.environment import NOW

PARTITION, MINUTE = "ENTRIES#merchant.shop#3", "2026-11-22T06:04"
SPAN = Span(PARTITION, MINUTE)
SHOP: Settlement = replace(SETTLEMENT, payee="merchant.shop")
PAID = {"payee": "merchant.shop", "request_hash": SHOP.request_hash}


def entry(second: str, amount: int, step: str = "release") -> Row:
    return {"posted_at": f"{MINUTE}:{second}.250Z", "step": step, "amount": amount, "currency": "EUR"}


def folded(version: int, **seconds: int) -> Row:
    return {
        **SPAN.swept,
        "version": version,
        "folded": {name.removeprefix("s"): total for name, total in seconds.items()},
    }


@pytest.mark.parametrize(
    ("found", "entries", "wanted"),
    [
        pytest.param(None, [], {}, id="nothing"),
        pytest.param(None, [entry("07", 5), entry("07", 3), entry("59", 1)], {"07": 8, "59": 1}, id="new"),
        pytest.param(folded(1, s07=8), [entry("07", 5), entry("07", 3)], {}, id="all of it is folded"),
        pytest.param(folded(1, s07=5), [entry("07", 5), entry("07", 3)], {"07": 3}, id="one came late"),
        pytest.param(folded(1, s08=5), [entry("07", 3)], {"07": 3}, id="another second is folded"),
        pytest.param(folded(1, s07=9), [entry("07", 3)], {}, id="what is folded never shrinks"),
        pytest.param(None, [entry("07", 0)], {}, id="a release of nothing"),
        pytest.param(
            None,
            [entry("07", 5, step) for step in ("deposit", "hold", "compensate:release")],
            {},
            id="others",
        ),
    ],
)
def test_the_unswept_amount_is_the_releases_minus_the_swept(
    found: Row | None, entries: list[Row], wanted: dict[str, int]
) -> None:
    assert sweep.unswept(found, entries) == wanted


def test_a_sweep_records_the_swept_amounts_and_credits_the_merchant() -> None:
    swept, balance = sweep.fold(SPAN, folded(4, s07=5, s08=1), {"07": 3, "59": 2}, "EUR")

    assert swept.parameters["Item"] == folded(5, s07=8, s08=1, s59=2)
    shop = account_row("merchant.shop", 10, "EUR")
    assert balance.parameters["Key"] == keys.account("merchant.shop")
    assert applied(balance, shop) == shop | {"available": 15}


@pytest.mark.parametrize(
    ("read", "meanwhile", "commits"),
    [
        pytest.param(None, None, True, id="the first"),
        pytest.param(None, folded(1, s07=3), False, id="another was the first"),
        pytest.param(folded(1, s07=3), folded(1, s07=3), True, id="the second"),
        pytest.param(folded(1, s07=3), folded(2, s07=3, s08=1), False, id="another was quicker"),
    ],
)
def test_a_sweep_commits_unless_another_swept_since_its_read(
    read: Row | None, meanwhile: Row | None, commits: bool
) -> None:
    swept, _ = sweep.fold(SPAN, read, {"07": 3}, "EUR")

    assert admits(swept, meanwhile or {}) is commits
    assert isinstance(swept.on_failure(meanwhile), AlreadyApplied)


def test_a_batch_of_releases_is_grouped_by_partition_and_minute() -> None:
    other = "ENTRIES#merchant.kiosk#3"
    news = [(PARTITION, f"{MINUTE}:{second}.000Z#k:release") for second in ("30", "07", "07", "31")]
    news += [(PARTITION, "2026-11-22T06:05:01.000Z#k:release"), (other, f"{MINUTE}:07.000Z#k:release")]

    assert sweeps.spans(news) == [
        Span(other, MINUTE, "07", "07"),
        Span(PARTITION, MINUTE, "07", "31"),
        Span(PARTITION, "2026-11-22T06:05", "01", "01"),
    ]
    assert sweeps.spans([]) == []


@given(
    second=st.integers(0, 59), first=st.integers(0, 59), last=st.integers(0, 59), fraction=st.integers(0, 999)
)
def test_a_span_bounds_exactly_the_entries_of_its_seconds(
    second: int, first: int, last: int, fraction: int
) -> None:
    low, high = Span(PARTITION, MINUTE, f"{first:02}", f"{last:02}").bounds

    is_inside = low <= f"{MINUTE}:{second:02}.{fraction:03}Z#key:release" <= high

    assert is_inside is (first <= second <= last)
    assert Span(PARTITION, MINUTE, f"{first:02}").merchant == "merchant.shop"


def test_a_release_to_a_merchant_writes_no_balance() -> None:
    """Two releases to one merchant share no row, so they never conflict."""
    built, other = (
        steps.release(replace(SHOP, key=key), CONFIG, NOW) for key in ("order-0000-01", "order-0000-02")
    )
    rows = [write.parameters.get("Key") or write.parameters["Item"] for write in built.writes]

    assert [row["pk"].partition("#")[0] for row in rows] == ["SETTLEMENT", "ENTRIES"]
    assert {row["pk"] for row in rows} <= {
        "SETTLEMENT#order-0000-01",
        *keys.entry_partitions("merchant.shop"),
    }
    assert not [write for write in other.writes if write in built.writes]
    assert steps.release(SETTLEMENT, CONFIG, NOW).balance


def state(**more: Any) -> SettlementState:
    return SettlementState.from_row(row(status=Status.COMPENSATING, **{**PAID, **more}))


def test_a_refund_first_sweeps_the_span_of_its_release() -> None:
    released = slots({Step.HOLD, Step.VERIFY, Step.RELEASE})
    at = released["release_at"]
    partition = keys.entry("merchant.shop", at, SETTLEMENT.key, "release")["pk"]

    assert sweeps.before_refund(state(**released)) == Span(partition, at[:16], at[17:19], at[17:19])


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(state(**slots({Step.HOLD, Step.VERIFY})), id="not released"),
        pytest.param(
            state(**slots({Step.HOLD, Step.VERIFY, Step.RELEASE}, {Step.RELEASE})), id="given back already"
        ),
        pytest.param(
            state(payee="bob", **slots({Step.HOLD, Step.VERIFY, Step.RELEASE})), id="a customer was paid"
        ),
    ],
)
def test_a_refund_sweeps_nothing_if_no_merchant_has_the_money(found: SettlementState) -> None:
    assert sweeps.before_refund(found) is None
