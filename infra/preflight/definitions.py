import re
from collections.abc import Iterator

from .finding import Account, Finding, Verdict
from .plan import Definition

_PLACEHOLDER = re.compile(r"\$\{(\w+)\}")
_ELSEWHERE = "eu-west-1:123456789012"


def definitions(account: Account) -> Iterator[Finding]:
    client = account.client("stepfunctions")
    refused = 0
    for one in account.plan.definitions:
        answer = client.validate_state_machine_definition(
            definition=filled(one), type=one.kind, severity="ERROR"
        )
        if answer["result"] != "OK":
            refused += 1
            told = "; ".join(f"{each['code']}: {each['message']}" for each in answer["diagnostics"])
            yield Finding(
                "definitions",
                Verdict.LACKING,
                f"Step Functions refuses the definition of {one.machine}: {told}",
                "correct it in statemachines/, or report it with this line",
            )
    if not refused:
        yield Finding(
            "definitions",
            Verdict.FINE,
            f"Step Functions takes the {len(account.plan.definitions)} definitions",
        )


def filled(one: Definition) -> str:
    """Return a definition with invented ARNs: the stack's ARNs may not exist yet."""
    arns = {
        "StartCompensation": one.start,
        "Compensation": f"arn:aws:states:{_ELSEWHERE}:stateMachine:Compensation",
        "EventBus": "settlement",
    }
    return _PLACEHOLDER.sub(
        lambda found: arns.get(found[1], f"arn:aws:lambda:{_ELSEWHERE}:function:{found[1]}"), one.text
    )
