"""Our camt.053 reader agrees with an independent one, generated from the standard's schema."""

import io
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xsdata.formats.dataclass.parsers import XmlParser
from xsdata.formats.dataclass.parsers.config import ParserConfig

from settlement.bank import camt
from settlement.bank.statement import Line, Side, Statement
from tests.world import bank_files
from tests.world.bank_files import line, message, statement

VERSION = "12"
STRICT = ParserConfig(
    fail_on_unknown_properties=True, fail_on_unknown_attributes=True, fail_on_converter_warnings=True
)
Told = tuple[Any, ...]


def ours(file: bytes) -> list[Told]:
    told = list[Told]()
    for one in camt.read(io.BytesIO(file), {"EUR": 2}):
        if isinstance(one, Statement):
            told.append((one.account, one.opening, one.closing))
        elif one.amount:
            told.append(of_line(one))
    return told


def of_line(one: Line) -> Told:
    return one.amount, one.side.value, one.booked, one.valued, one.bank_reference, set(one.references)


def theirs(file: bytes) -> Iterator[Told]:
    from python_iso20022.camt.camt_053_001_12 import models  # noqa: PLC0415 (it takes seconds)

    document = XmlParser(config=STRICT).from_bytes(file, models.Camt05300112)
    for one in document.bk_to_cstmr_stmt.stmt:
        for entry in one.ntry:
            if entry.sts.cd == "BOOK":
                yield from of_entry(entry)
        balances = {balance.tp.cd_or_prtry.cd: signed(balance) for balance in one.bal}
        yield one.acct.id.iban, balances["OPBD"], balances["CLBD"]


def of_entry(entry: Any) -> Iterator[Told]:
    parts = [part for details in entry.ntry_dtls for part in details.tx_dtls]
    days = tuple(str(day.dt) for day in (entry.bookg_dt, entry.val_dt))
    for part in parts if len(parts) > 1 else [entry]:
        side = {"CRDT": "in", "DBIT": "out"}[part.cdt_dbt_ind.value]
        names = {name for one in ([part] if part is not entry else parts) for name in names_of(one)}
        yield minor(part.amt.value), side, *days, entry.acct_svcr_ref or "", names


def names_of(part: Any) -> set[str]:
    """Return a payment's references: end-to-end id and whole text. Our reader adds the text's words."""
    texts = part.rmt_inf.ustrd if part.rmt_inf else []
    return {part.refs.end_to_end_id, " ".join(texts)} - {""}


def minor(amount: Decimal) -> int:
    return int(amount * 100)


def signed(balance: Any) -> int:
    return minor(balance.amt.value) * (1 if balance.cdt_dbt_ind.value == "CRDT" else -1)


DAYS = st.sampled_from(("2026-11-25", "2026-11-26", "2026-11-27"))
AMOUNTS = st.integers(1, 10**9).map(lambda cents: f"{cents / 100:.2f}")
NAMES = st.text("ABCdef0123-<&ü", min_size=3, max_size=12)
PART = st.builds(line, AMOUNTS, st.just(Side.IN), end_to_end=NAMES, text=st.lists(NAMES, max_size=2))
ALONE = st.builds(
    line,
    AMOUNTS,
    st.sampled_from(Side),
    booked=DAYS,
    valued=DAYS,
    bank_reference=st.none() | NAMES,
    end_to_end=NAMES,
    text=st.lists(NAMES, max_size=2).map(" ".join),
    reversal=st.booleans(),
    status=st.sampled_from(("BOOK", "BOOK", "PDNG")),
)


@st.composite
def batches(draw: st.DrawFn) -> dict[str, Any]:
    parts = draw(st.lists(PART, min_size=2, max_size=4))
    total = sum(Decimal(part["amount"]) for part in parts)
    return line(
        f"{total:.2f}", Side.IN, booked=draw(DAYS), valued=draw(DAYS), bank_reference="B", parts=parts
    )


@settings(derandomize=True, deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(ALONE | batches(), max_size=4), st.lists(ALONE, max_size=2), st.sampled_from(("0.00", "-7.10"))
)
def test_an_independent_reader_finds_the_same_lines(
    lines: list[dict[str, Any]], others: list[dict[str, Any]], opening: str
) -> None:
    file = message(
        statement(lines, opening=opening),
        statement(others, account="DE02120300000000202051", name="S-2"),
        version=VERSION,
    )

    one, other = ours(file), list(theirs(file))
    assert [told[:5] for told in one] == [told[:5] for told in other]
    missing = [known[5] - told[5] for told, known in zip(one, other, strict=True) if known[5:]]
    assert not any(missing)


def test_the_independent_reader_notices_a_different_line() -> None:
    file = bank_files.camt([line("1.00")], version=VERSION)

    assert list(theirs(file)) != ours(file.replace(b'"EUR">1.00<', b'"EUR">1.01<'))
