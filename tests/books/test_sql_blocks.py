import psycopg
import pytest

from examples.consumers import postgresql_inbox
from tests.world.pages import PAGES, Block, blocks

OF_DUCKDB = "read_csv"
"""Marks queries of files, which `tests/settle/test_without_a_server.py` runs."""

SHOWN = [
    block
    for page in PAGES
    for block in blocks(page)
    if block.language == "sql" and OF_DUCKDB not in block.text
]


@pytest.mark.parametrize("block", SHOWN, ids=str)
def test_each_sql_block_of_the_pages_runs(url: str, block: Block) -> None:
    given = {"key": "order-2026-000101", "sequence": 4} if "%(" in block.text else None
    with psycopg.connect(url) as connection:
        connection.execute("CREATE ROLE projector; CREATE ROLE ada")
        connection.execute(postgresql_inbox.SCHEMA)

        connection.execute(block.text, given)

        connection.rollback()
