"""`cdk synth` needs no network, no credentials, no git and no Docker."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.config import STAGES
from tests.infra.machines import context
from tests.infra.test_outputs import CONTRACT
from tests.support.templates import PROJECT

FORBIDDEN = {"git", "docker", "aws"}
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the machine's programs, without those that synthesis must not need."""
    directory = tmp_path_factory.mktemp("bin")
    for folder in (Path("/bin"), Path("/usr/bin")):
        for program in folder.iterdir():
            link = directory / program.name
            if program.name not in FORBIDDEN and not link.is_symlink():
                link.symlink_to(program)
    return directory


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty home: no credentials, no settings, and no cache of an earlier run."""
    return tmp_path_factory.mktemp("home")


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_is_synthesised_offline(stage: str, tools: Path, home: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    virtual_environment = Path(sys.executable).parent
    assert not FORBIDDEN & {path.name for folder in (virtual_environment, tools) for path in folder.iterdir()}
    environment = {
        "HOME": str(home),
        "PATH": os.pathsep.join((str(virtual_environment), str(tools))),
        "TMPDIR": str(tmp_path),
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), NOWHERE),
    }
    arguments = [word for given in context(stage).items() for word in ("-c", "=".join(given))]
    command = [str(PROJECT / "node_modules/.bin/cdk"), "synth", "--quiet", "--no-notices"]

    result = subprocess.run(
        [*command, *arguments, "-o", str(out)],
        cwd=PROJECT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert result.returncode == 0, result.stdout + result.stderr
    template = json.loads((out / f"settlement-{stage}.template.json").read_text())
    assert template["Outputs"].keys() == CONTRACT
    # A context lookup would be noted here as missing, and asked of AWS at the next synthesis.
    assert "missing" not in json.loads((out / "manifest.json").read_text())
