"""The queries of docs/operating/ledger.md over exported entries, in DuckDB."""

import json
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.proof import sealed_town as towns
from tests.proof.town import CONFIG, Town
from tests.settle.conftest import Command
from tests.settle.journal.test_journal_entries import SINCE, journal, town
from tests.world.memory_s3 import MemoryS3
from tests.world.templates import PROJECT

__all__ = ["journal", "town"]

PAGE = (PROJECT / "docs/operating/ledger.md").read_text()
VIEW, BALANCES, TO_PARQUET = re.findall(
    r"```sql\n(.*?)```", PAGE.partition("## Without a server")[2], re.DOTALL
)[0].split("\n\n")


def in_duckdb(*statements: str) -> list[list[Any]]:
    """Run statements in a separate process, because DuckDB disturbs its exit; return the last result."""
    program = "import duckdb, json, sys\nfor one in sys.argv[1:]: found = duckdb.execute(one)\n"
    program += "print(json.dumps(found.fetchall(), default=str))"
    command = [sys.executable, "-c", program, *statements]
    finished = subprocess.run(command, check=True, capture_output=True, text=True)
    lines: list[list[Any]] = json.loads(finished.stdout)
    return lines


def test_the_documented_queries_return_the_trial_balance_of_the_rows(
    journal: MemoryS3, settle: Command, town: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("entries.csv").write_text(settle("journal", "entries", "--since", SINCE, "--csv")[1])

    found = in_duckdb(VIEW, BALANCES)
    in_duckdb(VIEW, TO_PARQUET)
    kept = in_duckdb("SELECT count(*) FROM 'entries.parquet'")

    expected = dict[tuple[str, str], Decimal]()
    for row in towns.entries(town):
        amount = Decimal(row["amount"]).scaleb(-CONFIG.currencies[row["currency"]])
        for account, change in ((row["credit"], amount), (row["debit"], -amount)):
            name = (account, row["currency"])
            expected[name] = expected.get(name, Decimal()) + change
    assert {(account, currency): Decimal(balance) for account, currency, balance in found} == expected
    assert kept == [[len(towns.entries(town))]]
