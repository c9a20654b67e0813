import re
from collections.abc import Iterator

from ..state_machines import START, START_AND_WAIT, render_definition
from .finding import Account, Finding, Verdict

MACHINES = (
    ("SettlementExpress", "settlement", "EXPRESS", START),
    ("SettlementStandard", "settlement", "STANDARD", START_AND_WAIT),
    ("Compensation", "compensation", "STANDARD", START_AND_WAIT),
)
"""Each machine's definition, its type, and its way to start a compensation."""

_PLACEHOLDER = re.compile(r"\$\{(\w+)\}")
_ELSEWHERE = "eu-west-1:123456789012"


def definitions(account: Account) -> Iterator[Finding]:
    """Let Step Functions judge each definition, as it would at the deployment."""
    client = account.client("stepfunctions")
    refused = 0
    for machine, name, kind, start in MACHINES:
        answer = client.validate_state_machine_definition(
            definition=filled(render_definition(name, account.settings), start), type=kind, severity="ERROR"
        )
        if answer["result"] != "OK":
            refused += 1
            told = "; ".join(f"{one['code']}: {one['message']}" for one in answer["diagnostics"])
            yield Finding(
                "definitions",
                Verdict.LACKING,
                f"Step Functions refuses the definition of {machine}: {told}",
                f"correct statemachines/{name}.asl.json",
            )
    if not refused:
        yield Finding("definitions", Verdict.FINE, f"Step Functions takes the {len(MACHINES)} definitions")


def filled(rendered: str, start: str) -> str:
    """Fill the placeholders with ARNs of the right form: the stack's own may not exist yet."""
    arns = {
        "StartCompensation": start,
        "Compensation": f"arn:aws:states:{_ELSEWHERE}:stateMachine:Compensation",
        "EventBus": "settlement",
    }
    return _PLACEHOLDER.sub(
        lambda one: arns.get(one[1], f"arn:aws:lambda:{_ELSEWHERE}:function:{one[1]}"), rendered
    )
