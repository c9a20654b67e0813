"""Files for synthesis: beside this package in a checkout, inside it in a wheel."""

from pathlib import Path

_WHEEL = Path(__file__).parent / "data"
ROOT = _WHEEL if _WHEEL.is_dir() else Path(__file__).parent.parent

CDK_JSON = ROOT / "cdk.json"
LAMBDAS, STATE_MACHINES = ROOT / "lambdas", ROOT / "statemachines"
ALARMS_RUNBOOK = ROOT / "docs" / "runbooks" / "alarms.md"
