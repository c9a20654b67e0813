"""Where rows stand: no two things share a key, and the index finds what was put into it."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement import rows
from settlement.request import ACCOUNT, KEY

ACCOUNTS = st.from_regex(ACCOUNT, fullmatch=True)
KEYS = st.from_regex(KEY, fullmatch=True)
INSTANTS = st.datetimes(datetime(2000, 1, 1), datetime(2999, 12, 31), timezones=st.just(UTC))


def test_rows_stand_where_the_design_puts_them() -> None:
    assert rows.account_key("alice") == {"pk": "ACCOUNT#alice", "sk": "BALANCE"}
    assert rows.settlement_key("k") == {"pk": "SETTLEMENT#k", "sk": "SETTLEMENT"}
    assert rows.entry_key("k", "hold") == {"pk": "SETTLEMENT#k", "sk": "k:hold"}
    assert rows.deposit_key("k") == {"pk": "DEPOSIT#k", "sk": "k:deposit"}
    assert rows.event_key("e") == {"pk": "KYC_EVENT#e", "sk": "EVENT"}
    assert rows.circuit_key("kyc") == {"pk": "CIRCUIT", "sk": "kyc"}


def test_a_settlements_state_is_told_from_its_entries_and_from_every_other_row() -> None:
    others = (rows.entry_key("k", "hold"), rows.account_key("a"), rows.deposit_key("k"), rows.event_key("e"))

    assert rows.is_settlement(rows.settlement_key("k")) is True
    assert [rows.is_settlement(row) for row in others] == [False] * 4


def test_a_row_belongs_to_what_its_key_names_whatever_is_in_the_name() -> None:
    """The id of a webhook's event is its sender's: it may have any sign in it."""
    assert rows.subject(rows.settlement_key("k")) == ("SETTLEMENT", "k")
    assert rows.subject(rows.event_key("evt#1")) == ("KYC_EVENT", "evt#1")


@given(
    key=KEYS,
    account=ACCOUNTS,
    step=st.sampled_from(["hold", "fee", "compensate:fee", "limbo:1", "resolve:1", "reverse"]),
)
def test_no_two_rows_share_a_key(key: str, account: str, step: str) -> None:
    keys = [
        rows.account_key(account),
        rows.account_key(key),
        rows.settlement_key(key),
        rows.entry_key(key, step),
        rows.deposit_key(key),
    ]
    different = 4 if account == key else 5

    assert len({(row["pk"], row["sk"]) for row in keys}) == different


@given(account=ACCOUNTS)
def test_no_customer_can_take_the_name_of_an_internal_account(account: str) -> None:
    assert rows.is_customer(account)
    for internal in (rows.escrow(account), rows.fees(account), rows.external(account), rows.losses(account)):
        assert not rows.is_customer(internal)
        assert ACCOUNT.fullmatch(internal) is None


def test_internal_accounts_are_called_by_what_they_are_for() -> None:
    names = [rows.fees("EUR"), rows.losses("EUR"), rows.external("EUR"), rows.escrow("k")]

    assert names == ["fees:EUR", "losses:EUR", "external:EUR", "escrow:k"]


@given(
    key=KEYS,
    account=ACCOUNTS | ACCOUNTS.map(rows.escrow) | st.sampled_from(["fees:EUR", "losses:EUR"]),
    instant=INSTANTS,
)
def test_an_entry_is_listed_in_a_partition_that_a_reader_asks(
    key: str, account: str, instant: datetime
) -> None:
    posted_at = rows.timestamp(instant)

    index = rows.statement_index(account, key, "fee", posted_at)

    assert index["gsi1pk"] in rows.statement_partitions(account)
    assert index["gsi1sk"] == f"{posted_at}#{key}:fee"


def test_a_customer_has_one_partition_and_an_internal_account_sixteen() -> None:
    assert rows.statement_partitions("alice") == ["ACCOUNT#alice"]
    assert rows.statement_partitions("fees:EUR") == [f"ACCOUNT#fees:EUR#{shard}" for shard in range(16)]


def test_keys_are_spread_over_all_partitions() -> None:
    keys = [f"order-2026-{number:06}" for number in range(1_000)]

    fees = {rows.statement_index("fees:EUR", key, "fee", "")["gsi1pk"] for key in keys}
    in_flight = {rows.in_flight_index(key, "")["gsi1pk"] for key in keys}

    assert fees == set(rows.statement_partitions("fees:EUR"))
    assert in_flight == {f"IN_FLIGHT#{shard}" for shard in range(8)}


def test_a_settlement_in_flight_is_listed_by_when_it_is_due() -> None:
    assert rows.in_flight_index("order-2026-000101", "then")["gsi1sk"] == "then"


def test_what_is_in_limbo_is_listed_by_since_when_and_apart_from_all_else() -> None:
    index = rows.limbo_index("then")

    assert index == {"gsi1pk": "LIMBO", "gsi1sk": "then"}
    assert index["gsi1pk"] not in rows.statement_partitions("LIMBO")
    assert rows.in_flight_index("order-2026-000101", "then")["gsi1pk"] != index["gsi1pk"]


@given(earlier=INSTANTS, later=INSTANTS, hours=st.integers(-12, 14))
def test_the_order_of_timestamps_is_the_order_of_instants(
    earlier: datetime, later: datetime, hours: int
) -> None:
    earlier, later = sorted((earlier, later))
    elsewhere = later.astimezone(timezone(timedelta(hours=hours)))

    assert len(rows.timestamp(earlier)) == len("2026-11-20T12:00:00.123Z")
    assert rows.timestamp(earlier) <= rows.timestamp(elsewhere)
    assert rows.timestamp(later) == rows.timestamp(elsewhere)


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as there:
        there.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("tokyo")
def test_a_timestamp_is_in_utc_wherever_it_is_made() -> None:
    assert rows.timestamp(datetime(2026, 11, 20, 12, tzinfo=UTC)) == "2026-11-20T12:00:00.000Z"


@pytest.mark.parametrize(
    ("microsecond", "text"), [(0, "00.000Z"), (1_000, "00.001Z"), (999, "00.000Z"), (999_999, "00.999Z")]
)
def test_a_timestamp_has_milliseconds_always(microsecond: int, text: str) -> None:
    instant = datetime(2026, 11, 20, 12, 0, 0, microsecond, tzinfo=UTC)

    assert rows.timestamp(instant) == f"2026-11-20T12:00:{text}"
