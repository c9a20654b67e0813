import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement.core.ledger import keys as ledger_keys
from settlement.core.model import accounts
from settlement.core.model.request import ACCOUNT, KEY
from settlement.core.model.timestamps import timestamp

ACCOUNTS = st.from_regex(ACCOUNT, fullmatch=True)
KEYS = st.from_regex(KEY, fullmatch=True)
INSTANTS = st.datetimes(datetime(2000, 1, 1), datetime(2999, 12, 31), timezones=st.just(UTC))


def test_each_kind_of_row_has_its_designed_key() -> None:
    account, settlement = ledger_keys.account("alice"), ledger_keys.settlement("k")
    others = {
        "ENTRIES#alice then#k:hold": ledger_keys.entry("alice", "then", "k", "hold"),
        "EVIDENCE#k k:verify": ledger_keys.evidence("k", "verify"),
        "WAITING#k WAITING": ledger_keys.waiting("k"),
        "KYC_EVENT#e EVENT": ledger_keys.event("e"),
        "SWEPT#ENTRIES#shop#3 2026-11-22T06:04": ledger_keys.swept("ENTRIES#shop#3", "2026-11-22T06:04"),
        "ORDER#o ORDER": ledger_keys.order("o"),
        "PROPOSAL#k PROPOSAL": ledger_keys.proposal("k"),
        "MIGRATION#m MIGRATION": ledger_keys.migration("m"),
        "CIRCUIT kyc": ledger_keys.circuit("kyc"),
    }

    assert account == {"pk": "ACCOUNT#alice", "sk": "BALANCE"}
    assert settlement == {"pk": "SETTLEMENT#k", "sk": "SETTLEMENT"}
    assert list(others) == [f"{row['pk']} {row['sk']}" for row in others.values()]
    for row in (account, settlement, *others.values()):
        assert ledger_keys.is_settlement(row) is (row is settlement)
        assert ledger_keys.is_account(row) is (row is account)
        assert ledger_keys.is_entry(row) is row["pk"].startswith("ENTRIES#")
        assert ledger_keys.is_swept(row) is row["pk"].startswith("SWEPT#")
        assert ledger_keys.is_evidence(row) is row["pk"].startswith("EVIDENCE#")


def test_a_keys_subject_is_found_although_it_contains_a_separator() -> None:
    """A webhook event's key contains the id that its sender chose, with any characters."""
    assert ledger_keys.subject(ledger_keys.settlement("k")) == ("SETTLEMENT", "k")
    assert ledger_keys.subject(ledger_keys.event("evt#1")) == ("KYC_EVENT", "evt#1")


@given(
    key=KEYS,
    account=ACCOUNTS,
    step=st.sampled_from(["hold", "fee", "compensate:fee", "limbo:1", "resolve:1", "reverse"]),
)
def test_no_two_rows_share_a_key(key: str, account: str, step: str) -> None:
    keys = [
        ledger_keys.account(account),
        ledger_keys.account(key),
        ledger_keys.settlement(key),
        ledger_keys.entry(account, "then", key, step),
        ledger_keys.entry("fees:EUR", "then", key, step),
        ledger_keys.evidence(key, step),
        ledger_keys.waiting(key),
    ]
    different = len(keys) - (account == key)

    assert len({(row["pk"], row["sk"]) for row in keys}) == different


@given(account=ACCOUNTS)
def test_no_customer_can_take_the_name_of_an_internal_account(account: str) -> None:
    internals = {
        "escrow": accounts.escrow,
        "fees": accounts.fees,
        "external": accounts.external,
        "losses": accounts.losses,
    }

    assert accounts.is_customer(account)
    for purpose, name in internals.items():
        internal = name(account)
        assert internal == f"{purpose}:{account}"
        assert not accounts.is_customer(internal)
        assert ACCOUNT.fullmatch(internal) is None


@given(
    key=KEYS,
    account=ACCOUNTS | ACCOUNTS.map(accounts.escrow) | st.sampled_from(["fees:EUR", "losses:EUR"]),
    instant=INSTANTS,
)
def test_an_entrys_key_is_its_accounts_partition_and_its_time(
    key: str, account: str, instant: datetime
) -> None:
    posted_at = timestamp(instant)

    row = ledger_keys.entry(account, posted_at, key, "fee")

    assert row["pk"] in ledger_keys.entry_partitions(account)
    assert row["sk"] == f"{posted_at}#{key}:fee"


@given(one=ACCOUNTS, other=ACCOUNTS | st.sampled_from(["fees:EUR", "fees:JPY", "losses:EUR"]))
def test_no_partition_has_the_entries_of_two_accounts(one: str, other: str) -> None:
    shared = set(ledger_keys.entry_partitions(one)) & set(ledger_keys.entry_partitions(other))

    assert bool(shared) == (one == other)


def test_keys_are_spread_over_all_partitions() -> None:
    keys = [f"order-2026-{number:06}" for number in range(1_000)]

    fees = {ledger_keys.entry("fees:EUR", "", key, "fee")["pk"] for key in keys}
    in_flight = {ledger_keys.in_flight_index(key, "")["gsi1pk"] for key in keys}

    assert ledger_keys.entry_partitions("alice") == ["ENTRIES#alice"]
    assert fees == set(ledger_keys.entry_partitions("fees:EUR"))
    assert fees == {f"ENTRIES#fees:EUR#{shard}" for shard in range(16)}
    assert in_flight == {f"IN_FLIGHT#{shard}" for shard in range(8)}


def test_a_settlement_in_limbo_is_indexed_by_its_cases_start() -> None:
    index = ledger_keys.limbo_index("then")

    assert index == {"gsi1pk": "LIMBO", "gsi1sk": "then"}
    assert ledger_keys.in_flight_index("order-2026-000101", "then")["gsi1pk"] != index["gsi1pk"]


@given(earlier=INSTANTS, later=INSTANTS, hours=st.integers(-12, 14))
def test_the_order_of_timestamps_is_the_order_of_instants(
    earlier: datetime, later: datetime, hours: int
) -> None:
    earlier, later = sorted((earlier, later))
    elsewhere = later.astimezone(timezone(timedelta(hours=hours)))

    assert len(timestamp(earlier)) == len("2026-11-20T12:00:00.123Z")
    assert timestamp(earlier) <= timestamp(elsewhere)
    assert timestamp(later) == timestamp(elsewhere)


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as there:
        there.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("tokyo")
def test_a_timestamp_is_in_utc_in_any_time_zone() -> None:
    assert timestamp(datetime(2026, 11, 20, 12, tzinfo=UTC)) == "2026-11-20T12:00:00.000Z"


@pytest.mark.parametrize(
    ("microsecond", "text"), [(0, "00.000Z"), (1_000, "00.001Z"), (999, "00.000Z"), (999_999, "00.999Z")]
)
def test_a_timestamp_has_milliseconds_always(microsecond: int, text: str) -> None:
    instant = datetime(2026, 11, 20, 12, 0, 0, microsecond, tzinfo=UTC)

    assert timestamp(instant) == f"2026-11-20T12:00:{text}"


def test_an_order_is_listed_by_its_utc_month_and_time() -> None:
    last = timestamp(datetime(2026, 11, 30, 23, 59, 59, 999_999, tzinfo=UTC))
    first = timestamp(datetime(2026, 12, 1, 0, 59, tzinfo=timezone(timedelta(hours=1))))

    assert ledger_keys.orders_index(last) == {
        "gsi1pk": "ORDERS#2026-11",
        "gsi1sk": "2026-11-30T23:59:59.999Z",
    }
    assert ledger_keys.orders_index(first) == {
        "gsi1pk": "ORDERS#2026-11",
        "gsi1sk": "2026-11-30T23:59:00.000Z",
    }
