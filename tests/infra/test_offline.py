import json
import os
import py_compile
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import aws_cdk as cdk
import pytest

from app import build
from infra.assets import LAMBDAS
from infra.config import STAGES
from tests.infra.stack import KYC_URL, context, name, readable
from tests.infra.test_outputs import contract
from tests.world.templates import PROJECT

FORBIDDEN = {"git", "docker", "aws"}
NOWHERE = "http://127.0.0.1:9"
UNPACKED = Path.home() / ".cache/aws/jsii/package-cache"
"""The unpacked CDK library. Unpacking it takes longer than all the other work."""


class Assembly(NamedTuple):
    stage: str
    path: Path

    @property
    def template(self) -> Any:
        return json.loads((self.path / f"settlement-{self.stage}.template.json").read_text())

    @property
    def manifest(self) -> Any:
        return json.loads((self.path / "manifest.json").read_text())


def in_this_process(stage: str, scratch: Path) -> None:
    app = cdk.App(context=context(stage), outdir=str(scratch / "out"))
    build(app)
    app.synth()


def offline(stage: str, scratch: Path) -> None:
    """Run `cdk synth` with an empty home, no network, and no forbidden programs."""
    tools, home = scratch / "bin", scratch / "home"
    tools.mkdir()
    home.mkdir()
    for program in (*Path("/bin").iterdir(), *Path("/usr/bin").iterdir()):
        link = tools / program.name
        if program.name not in FORBIDDEN and not link.is_symlink():
            link.symlink_to(program)
    virtual_environment = Path(sys.executable).parent
    assert not FORBIDDEN & {path.name for folder in (virtual_environment, tools) for path in folder.iterdir()}
    arguments = [word for given in context(stage).items() for word in ("-c", "=".join(given))]
    command = [str(PROJECT / "node_modules/.bin/cdk"), "synth", "--quiet", "--no-notices"]

    result = subprocess.run(
        [*command, *arguments, "-o", str(scratch / "out")],
        cwd=PROJECT,
        env={
            "HOME": str(home),
            "PATH": os.pathsep.join((str(virtual_environment), str(tools))),
            "TMPDIR": str(scratch),
            "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(UNPACKED),
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), NOWHERE),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )

    assert result.returncode == 0, result.stdout + result.stderr


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("stage", "synthesise"),
    [
        pytest.param("prod", offline, id="prod-offline", marks=pytest.mark.long),
        pytest.param("local", in_this_process, id="local"),
        pytest.param("dev", offline, id="dev-offline", marks=pytest.mark.long),
        pytest.param("local", offline, id="local-offline", marks=pytest.mark.long),
    ],
)
def test_a_stage_can_be_synthesised_offline_from_our_sources(
    stage: str, synthesise: Callable[[str, Path], None], tmp_path: Path
) -> None:
    for package in ("handlers", "settlement"):
        py_compile.compile(str(LAMBDAS / package / "__init__.py"))

    synthesise(stage, tmp_path)

    check(Assembly(stage, tmp_path / "out"))


def check(found: Assembly) -> None:
    settings = STAGES[found.stage]
    assert found.template["Outputs"].keys() == contract(found.stage).keys()
    # A context lookup would be noted here as missing, and asked of AWS at the next synthesis.
    assert "missing" not in found.manifest

    # No bytecode, so that the same sources make the same asset on every machine.
    (asset,) = (path for path in found.path.glob("asset.*") if path.is_dir())
    sources = {file for file in files(LAMBDAS) if file.endswith(".py")}
    assert files(asset) == sources | ({"bootstrap"} if settings.is_embedded else set())
    assert not list(asset.rglob("__pycache__"))

    # The provider's address comes from the deployment: another account needs no changed file.
    (verify,) = (one for key, one in found.template["Resources"].items() if name(key) == "VerifyKyc")
    described = json.loads(readable(verify["Properties"]["Environment"]["Variables"]["KYC"]))
    assert described["endpoint"]["url"] == (settings.kyc.url if settings.is_embedded else KYC_URL)

    # Where money is real, the stack cannot be deleted by mistake.
    stack = found.manifest["artifacts"][f"settlement-{found.stage}"]["properties"]
    assert stack.get("terminationProtection", False) is settings.keeps_data
