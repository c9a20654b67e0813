"""Compiles or parses each code block of each page, or checks it against its contract."""

import ast
import importlib
import json
import re
import shlex
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml

import infra
from tests.unit.shown_commands import TARGETS, check_command, pip
from tests.unit.shown_documents import check_document
from tests.unit.vectors import CONFIG, SETTLEMENT
from tests.world.pages import PAGES, PROJECT, Block, blocks
from tests.world.shell import commands
from tests.world.typescript import compile_block

BLOCKS = [block for page in PAGES for block in blocks(page)]
DIAGRAMS = ("flowchart ", "stateDiagram-v2", "sequenceDiagram")
PROMPTS = re.compile(r"^(?:\$ |(?:make|pip|cdk|aws) [a-z])", re.MULTILINE)

REQUEST = SETTLEMENT.to_wire(CONFIG)

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))


@pytest.fixture(autouse=True)
def the_wheels_name_of_the_constructs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "settlement_saga", infra)


@pytest.fixture(autouse=True)
def the_variables_that_the_pages_export(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER_URL", "postgresql://owner@db.example.com/books")


def check_json(block: Block) -> None:
    check_document(json.loads(block.text))


def check_jsonl(block: Block) -> None:
    for line in block.text.splitlines():
        check_document(json.loads(line))


def check_python(block: Block) -> None:
    tree = ast.parse(block.text, filename=str(block))
    compile(tree, str(block), "exec")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                importlib.import_module(alias.name)
        elif isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                assert hasattr(module, alias.name), f"{node.module} has no {alias.name}"


def check_typescript(block: Block) -> None:
    with TemporaryDirectory() as folder:
        compile_block(block.text, Path(folder))


def check_shell(block: Block) -> None:
    for words in commands(block):
        check_command(words)


def check_mermaid(block: Block) -> None:
    first, *rest = block.text.strip().splitlines()
    assert first.startswith(DIAGRAMS)
    assert rest


def check_text(block: Block) -> None:
    """Check that output and drawings have no command, because no test would check it there."""
    assert not PROMPTS.search(block.text)


def check_sql(block: Block) -> None:
    """Check only that there is text, because `tests/books/test_sql_blocks.py` runs each block."""
    assert block.text.strip()


def check_toml(block: Block) -> None:
    assert tomllib.loads(block.text)


def check_yaml(block: Block) -> None:
    assert yaml.safe_load(block.text)


CHECKS: dict[str, Callable[[Block], None]] = {
    "": check_text,
    "console": check_shell,
    "json": check_json,
    "jsonc": check_json,
    "jsonl": check_jsonl,
    "mermaid": check_mermaid,
    "python": check_python,
    "sh": check_shell,
    "sql": check_sql,
    "text": check_text,
    "toml": check_toml,
    "ts": check_typescript,
    "yaml": check_yaml,
}


def check(block: Block) -> None:
    assert block.language in CHECKS, f"no check for {block.language}: add one"
    CHECKS[block.language](block)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_each_block_of_code_on_a_page_is_valid(block: Block) -> None:
    check(block)


@each_page
def test_each_pip_install_command_on_a_page_is_valid(page: Path) -> None:
    for shown in re.findall(r"pip install ([^`#\n]+)", page.read_text()):
        pip(["install", *shlex.split(shown)])


@each_page
def test_each_make_target_named_on_a_page_exists(page: Path) -> None:
    shown = re.findall(r"`make ([a-z][\w-]*)", page.read_text())

    assert {*shown} <= TARGETS


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", "def test_it(saga: Saga) -> None: saga.start()\n\n    assert saga"),
        ("python", "import settlement_clients"),
        ("python", "from settlement_client import Clients"),
        ("ts", 'import { Clients } from "@settlement-saga/client";'),
        ("ts", 'import { mintKey } from "@settlement-saga/client";\nconst key: number = mintKey("order");'),
        ("json", '{"key": "order-2026-000101", "payer": "dora"}'),
        (
            "json",
            '{"specversion": "1.0", "id": "a:1", "subject": "a", "sequence": "1", "data": {"key": "a"}}',
        ),
        ("json", '{"order": "deposits", "key": "deposit-2026-000101"}'),
        ("json", '{"Version": "2012-10-17", "Statement": [{"Action": "states:StartSync"}]}'),
        ("json", '{"of_no_kind": 1}'),
        ("jsonl", json.dumps({"settlement": REQUEST, "reversal": {"reason": "paid twice", "by": "carol"}})),
        ("sh", "settle limbo lists"),
        ("sh", "settle status"),
        ("sh", "settle status $KEY --jsn"),
        ("sh", "settle report --day 2026-11-22 --verbose $STACK"),
        ("sh", "settle status $OTHER"),
        ("sh", "settle reverse $KEY | setle wait $KEY"),
        ("sh", "pip install 'settlement-saga[console]'"),
        ("sh", "pip install '.[consoles]'"),
        ("sh", "make tests"),
        ("sh", "cdk deploy -c stages=prod"),
        ("sh", "aws dynamodb restore-table --table-name a"),
        ("sh", "aws dynamodb describe-table --table a"),
        ("sh", "python benchmarks/gone.py"),
        ("sh", 'curl $SETTLEMENTS_API_URL -d \'{"key": "short"}\''),
        ("console", "settle local down"),
        ("console", "$ settle local dawn"),
        ("text", "$ settle local down"),
        ("mermaid", "graphs LR\n  a --> b"),
        ("mermaid", "flowchart LR\n"),
        ("toml", "a ="),
        ("yaml", "a: ["),
        ("rust", "fn main() {}"),
    ],
)
def test_an_invalid_block_is_found(language: str, text: str) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011 (each parser has errors of its own)
        check(Block(PROJECT / "README.md", 1, language, text))
