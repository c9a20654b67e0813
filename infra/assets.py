"""Files for synthesis. In a checkout they are beside this package, in a wheel inside it."""

from pathlib import Path

_WHEEL = Path(__file__).parent / "data"
ROOT = _WHEEL if _WHEEL.is_dir() else Path(__file__).parent.parent

CDK_JSON = ROOT / "cdk.json"
LAMBDAS, STATE_MACHINES = ROOT / "lambdas", ROOT / "statemachines"
ALARMS_RUNBOOK = ROOT / "docs" / "runbooks" / "alarms.md"
