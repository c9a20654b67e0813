import json
import subprocess
from pathlib import Path

from infra.config import STAGES
from infra.state_machines import render_definition
from tests.statemachines.definitions import ALL, DEFINITIONS, FILES
from tests.world.templates import PROJECT


def validate(*paths: Path) -> tuple[bool, str]:
    each = [word for path in paths for word in ("--json-path", str(path))]
    command = [str(PROJECT / "node_modules/.bin/asl-validator"), *each]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return result.returncode == 0, result.stdout + result.stderr


def test_every_definition_is_valid_as_written_and_rendered_per_stage(tmp_path: Path) -> None:
    rendered = []
    for stage, settings in STAGES.items():
        for machine in ALL:
            rendered.append(tmp_path / f"{stage}-{machine}.asl.json")
            rendered[-1].write_text(render_definition(machine, settings))

    accepted, output = validate(*FILES, *rendered, *(PROJECT / "examples").rglob("*.asl.json"))

    assert accepted, output


def test_the_validator_refuses_a_transition_to_a_missing_state(tmp_path: Path) -> None:
    definition = json.loads(json.dumps(DEFINITIONS["settlement"]))
    definition["States"]["VerifyKyc"]["Next"] = "Nowhere"
    path = tmp_path / "dangling.asl.json"
    path.write_text(json.dumps(definition))

    accepted, output = validate(*FILES, path)

    assert not accepted
    assert "Nowhere" in output
