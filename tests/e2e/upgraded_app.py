"""The app with versioned settlement machines, from the sources in SOURCES. The CDK CLI runs it."""

import json
import os
from dataclasses import replace
from pathlib import Path

import aws_cdk as cdk

from app import build
from infra import config, functions, state_machines

SOURCES = Path(os.environ["SOURCES"])


def main() -> None:
    functions.LAMBDAS = SOURCES / "lambdas"  # type: ignore[attr-defined]
    state_machines.STATE_MACHINES = SOURCES / "statemachines"  # type: ignore[attr-defined]
    config.STAGES["local"] = replace(
        config.STAGES["local"], qualified_functions=True, **json.loads(os.environ["SETTINGS"])
    )
    app = cdk.App()
    build(app)
    app.synth()


if __name__ == "__main__":
    main()
