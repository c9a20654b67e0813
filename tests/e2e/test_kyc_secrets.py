"""The secrets that the stage shares with the provider: rotated without a deployment, and never told."""

import json
import secrets
from base64 import b64encode
from dataclasses import replace

from settle.machines import Machine
from tests.e2e.embedded import Embedded
from tests.e2e.provider import (
    CREDENTIALS,
    SIGNING,
    call,
    calls,
    control,
    decision,
    in_review,
    new_signing_secret,
    payment,
    put_secret,
    secret,
    send,
)


def test_a_renewed_api_key_is_found_by_the_payment_that_needs_it(
    embedded: Embedded, secrets_restored: None
) -> None:
    embedded.renew("VerifyKyc")
    assert payment(embedded).start()["status"] == "SETTLED"  # by an environment that keeps the old key now
    before, new = calls(embedded), secrets.token_hex(16)
    control(embedded, api_keys=[new])
    put_secret(embedded, CREDENTIALS, {"api_key": new})

    outcome = payment(embedded).start()

    assert outcome["status"] == "SETTLED"
    assert calls(embedded) == before + 2, "refused with the old key, approved with the new one"


def test_an_api_key_that_is_nowhere_to_be_found_gives_the_money_back(
    embedded: Embedded, secrets_restored: None
) -> None:
    one, before = payment(embedded), calls(embedded)
    control(embedded, api_keys=["a-key-of-no-caller"])

    outcome = one.start(Machine.STANDARD)

    assert (outcome["status"], outcome["failure"]["error"]) == ("COMPENSATED", "KycRequestRefused")
    assert one.balances() == ("100.00", "0.00")
    assert calls(embedded) == before + 1, "the same key is not tried again"


def test_a_renewed_signing_secret_is_good_besides_the_one_before(
    embedded: Embedded, secrets_restored: None
) -> None:
    one = in_review(embedded)
    old, new = secret(embedded, SIGNING)["current"], new_signing_secret()
    by_old = call(embedded, decision(one), secret=old)
    by_new = replace(by_old, secret=new)
    too_early = send(embedded, by_new)[0]
    put_secret(embedded, SIGNING, {"current": new, "previous": old})

    still_good = send(embedded, by_old)[0]
    embedded.wait_for(lambda: send(embedded, by_new)[0] == 200)  # once what was cached is too old
    good_after_all = send(embedded, by_old)[0]

    assert (too_early, still_good, good_after_all) == (401, 200, 200)
    assert one.over()["status"] == "SETTLED"


def test_a_signing_secret_that_was_renewed_twice_is_good_no_more(
    embedded: Embedded, secrets_restored: None
) -> None:
    one = in_review(embedded)
    old, newest = secret(embedded, SIGNING)["current"], new_signing_secret()
    put_secret(embedded, SIGNING, {"current": newest, "previous": new_signing_secret()})
    embedded.renew("KycDecided")

    refused = send(embedded, call(embedded, decision(one), secret=old))[0]
    accepted = send(embedded, call(embedded, decision(one), secret=newest))[0]

    assert (refused, accepted) == (401, 200)
    assert one.over()["status"] == "SETTLED"


def test_no_log_and_no_cause_tells_a_secret_an_account_or_a_reason(
    embedded: Embedded, secrets_restored: None
) -> None:
    """Every way that a verdict may come or fail, with canaries in all that must stay secret."""
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
    """Why something failed, wherever the executions that drove these settlements say so."""
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
    """The logs of all functions, once they tell of all these settlements."""

    def of(*functions: str) -> str:
        return "\n".join(line for function in functions for line in embedded.logged(function))

    embedded.wait_for(lambda: all(key in of("VerifyKyc") for key in keys))
    embedded.wait_for(lambda: keys[-1] in of("KycDecided"))
    return of(*embedded.functions)
