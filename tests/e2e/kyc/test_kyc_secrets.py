import json
import secrets
from base64 import b64encode
from dataclasses import replace

import pytest

from settle.settlements.machines import Machine
from tests.e2e.embedded import Embedded
from tests.e2e.provider import (
    CREDENTIALS,
    SIGNING,
    call,
    control,
    decision,
    in_review,
    payment,
    put_secret,
    send,
)

pytestmark = pytest.mark.long


def test_no_log_or_cause_reveals_secrets_accounts_or_reasons(
    embedded: Embedded, secrets_restored: None
) -> None:
    """The verdict comes in each possible way, including failures, with canaries in all secret fields."""
    canary = f"canary{secrets.token_hex(6)}"
    api_key, signing_secret = f"{canary}-key", b64encode(f"{canary}-a-signing-secret".encode()).decode()
    control(embedded, api_keys=[api_key], signing_secret=signing_secret)
    put_secret(embedded, CREDENTIALS, {"api_key": api_key})
    put_secret(embedded, SIGNING, {"current": signing_secret, "previous": None})
    embedded.renew("VerifyKyc")
    embedded.renew("KycDecided")
    name = f".{canary}"
    ended = [payment(embedded, kind, name) for kind in ("approve", "reject", "refuse", "garbage")]
    failures = [one.start(Machine.STANDARD)["failure"] for one in ended]
    reviewed, stuck = in_review(embedded, name), payment(embedded, name=name)
    body = decision(reviewed, "REJECTED", reason=f"{canary} is a listed party")
    good = call(embedded, body)
    answers = [
        send(embedded, replace(good, signed=canary)),
        send(embedded, replace(good, body=body + canary.encode())),
        send(embedded, good),
        send(embedded, replace(good, body=decision(reviewed, reason=canary))),
    ]
    reviewed.over()
    with embedded.without_grants("VerifyKyc", "dynamodb:GetItem"):
        stalled = embedded.invoke("VerifyKyc", stuck.request | {"fee": "0.48"})

    assert [status for status, _ in answers] == [401, 400, 200, 409]
    keys = [one.key for one in (*ended, reviewed)]
    told = json.dumps([failures, reviewed.row()["failure"], stalled, answers, *causes(embedded, keys)])
    for secret_or_personal in (canary, api_key, signing_secret, "a person has looked", "simulated:"):
        assert secret_or_personal not in logs(embedded, keys)
        assert secret_or_personal not in told


def causes(embedded: Embedded, keys: list[str]) -> list[str]:
    machines, found = embedded.step_functions, []
    for output in ("SettlementStandardArn", "CompensationArn"):
        pages = machines.get_paginator("list_executions").paginate(
            stateMachineArn=embedded.stack.outputs[output]
        )
        for execution in (one for page in pages for one in page["executions"]):
            if execution["name"].startswith(tuple(keys)):
                history = machines.get_execution_history(executionArn=execution["executionArn"])
                details = [value for event in history["events"] for value in event.values()]
                found += [value["cause"] for value in details if isinstance(value, dict) and "cause" in value]
    assert any("KycRejected" in cause or "rejected by the provider" in cause for cause in found)
    return found


def logs(embedded: Embedded, keys: list[str]) -> str:
    """Return all functions' logs, once they mention all these settlements."""

    def of(*functions: str) -> str:
        return "\n".join(line for function in functions for line in embedded.logged(function))

    embedded.wait_for(lambda: all(key in of("VerifyKyc") for key in keys))
    embedded.wait_for(lambda: keys[-1] in of("KycDecided"))
    return of(*embedded.functions)
