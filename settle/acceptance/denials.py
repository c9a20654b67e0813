from collections import Counter
from typing import TYPE_CHECKING, Any

from settle.acceptance.resources import physical
from settle.acceptance.run import Run
from settle.acceptance.verdict import NotApplicable, Refuted
from settle.exit_codes import CommandFailed
from settle.local import grants
from settle.stack import Stack

if TYPE_CHECKING:
    from settle.local.grants import Trial

ATTEMPTS = 10
"""Maximum tries of a request. IAM throttles its simulator; the check makes about 500 requests."""

_ALLOWED, _DENIED = "allowed", "explicitDeny"


def denials(run: Run) -> str:
    """Check in IAM's simulator that roles allow only their grants."""
    if run.stack.endpoint_url:
        raise NotApplicable("the embedded AWS: its simulator of policies knows no context keys")
    try:
        trials = [*grants.trials()]
    except CommandFailed as lacking:
        raise NotApplicable(str(lacking)) from lacking
    iam, roles = run.stack.client("iam", attempts=ATTEMPTS), physical(run.stack, "AWS::IAM::Role")
    decided: Counter[str] = Counter()
    wrong: list[str] = []
    for number, trial in enumerate(trials, start=1):
        run.waits_for = f"IAM's simulator, request {number} of {len(trials)}"
        role = roles.get(f"{trial.function}Role")
        if role is None:
            raise Refuted(f"{trial.function}: the stack has no role of this function")
        for action, decision in _simulated(iam, run.stack, role, trial).items():
            decided["allowed" if decision == _ALLOWED else "refused"] += 1
            if not _is_as_wanted(decision, trial.wanted[action]):
                wrong.append(f"{trial.function}: {action} is {decision} with {_shown(trial)}")
    if wrong:
        raise Refuted(f"{len(wrong)} decisions are wrong: {'; '.join(wrong[:3])}")
    figures = f"{decided['allowed']} actions allowed as granted, {decided['refused']} refused"
    return f"{len({trial.function for trial in trials})} roles, {len(trials)} requests: {figures}"


def _simulated(iam: Any, stack: Stack, role: str, trial: "Trial") -> dict[str, str]:
    _, partition, _, region, account, *_ = stack.outputs["SettlementStandardArn"].split(":")
    answer = iam.simulate_principal_policy(
        PolicySourceArn=f"arn:{partition}:iam::{account}:role/{role}",
        ActionNames=[f"dynamodb:{action}" for action in trial.wanted],
        ResourceArns=[f"arn:{partition}:dynamodb:{region}:{account}:table/{stack.outputs['TableName']}"],
        ContextEntries=[
            {"ContextKeyName": key, "ContextKeyValues": [*values], "ContextKeyType": "stringList"}
            for key, values in trial.context.items()
        ],
    )
    found = {
        one["EvalActionName"].removeprefix("dynamodb:"): one["EvalDecision"]
        for one in answer["EvaluationResults"]
    }
    if found.keys() != trial.wanted.keys():
        raise Refuted(f"{trial.function}: IAM's simulator decided on {', '.join(found) or 'nothing'}")
    return found


def _is_as_wanted(decision: str, wanted: str) -> bool:
    """Return whether `decision` satisfies `wanted`. An explicit denial satisfies an implicit one."""
    return decision == wanted if wanted in (_ALLOWED, _DENIED) else decision != _ALLOWED


def _shown(trial: "Trial") -> str:
    return ", ".join(
        f"{key.removeprefix('dynamodb:')} {'+'.join(values)}" for key, values in trial.context.items()
    )
