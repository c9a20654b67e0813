"""The community's validator of the Amazon States Language accepts the deployed definitions."""

import json
import subprocess
from pathlib import Path

import pytest

from infra.config import STAGES
from infra.state_machines import render_definition
from tests.statemachines.definitions import DEFINITIONS, FILES
from tests.support.templates import PROJECT


def validate(path: Path) -> subprocess.CompletedProcess[str]:
    command = [str(PROJECT / "node_modules/.bin/asl-validator"), "--json-path", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_definition_is_valid(path: Path) -> None:
    result = validate(path)

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("machine", DEFINITIONS)
def test_every_rendered_definition_is_valid(machine: str, stage: str, tmp_path: Path) -> None:
    path = tmp_path / f"{machine}.asl.json"
    path.write_text(render_definition(machine, STAGES[stage]))

    result = validate(path)

    assert result.returncode == 0, result.stdout + result.stderr


def test_the_validator_refuses_a_target_that_does_not_exist(tmp_path: Path) -> None:
    definition = json.loads(json.dumps(DEFINITIONS["settlement"]))
    definition["States"]["VerifyKyc"]["Next"] = "Nowhere"
    path = tmp_path / "dangling.asl.json"
    path.write_text(json.dumps(definition))

    result = validate(path)

    assert result.returncode != 0
    assert "Nowhere" in result.stdout + result.stderr
