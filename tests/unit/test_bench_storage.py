import pytest

from benchmarks import cost, storage
from benchmarks.storage import Kept
from tests.world.templates import PROJECT

PRICES = cost.load(PROJECT / "benchmarks/prices.toml").prices
PAGE = PROJECT / "docs/reference/costs.md"


def test_the_page_states_the_bytes_that_a_payment_stores() -> None:
    found = storage.kept(storage.payment())
    always, later = (found.usd_per_million_month(PRICES, is_expired=gone) for gone in (False, True))

    assert len(storage.payment()) == 5
    told = ((found.stays + found.expires, always), (found.stays, later))
    line = " | ".join(f"{size:,} bytes, {dollars:.2f} dollars" for size, dollars in told)
    assert line in PAGE.read_text(), line


def test_only_entries_may_expire() -> None:
    stays = [row for row in storage.payment() if not row["pk"].startswith("ENTRIES#")]

    assert storage.kept(stays) == Kept(storage.kept(storage.payment()).stays, 0)


@pytest.mark.parametrize(
    ("value", "size"), [("ä", 2), (0, 2), (48, 3), (4_820, 3), ({"a": "b"}, 6), ({"ab", "c"}, 8)]
)
def test_each_type_of_value_has_its_size_in_bytes(value: object, size: int) -> None:
    assert storage.row_bytes({"name": value}) == len("name") + size


def test_stored_bytes_are_priced_with_their_backup() -> None:
    prices = {"storage_gb_month": 2.0, "backup_gb_month": 3.0}

    assert Kept(600, 400).usd_per_million_month(prices, is_expired=False) == 5.0
    assert Kept(600, 400).usd_per_million_month(prices, is_expired=True) == 3.0
