from dataclasses import replace

import pytest

from settle.local.kyc_behaviour import Behaviour
from settlement.core.model.errors import KycUnavailable
from settlement.core.model.verdict import KycDecision, Verdict
from settlement.kyc.client import Refused
from tests.kyc.conftest import API_KEY, Ask, Counting
from tests.kyc.environments import PAYMENT
from tests.kyc.raw import be_patient, client

DECISIONS = {
    Behaviour.APPROVE: KycDecision.APPROVED,
    Behaviour.REJECT: KycDecision.REJECTED,
    Behaviour.REVIEW: KycDecision.REVIEW,
    Behaviour.REVIEW_APPROVE: KycDecision.REVIEW,
    Behaviour.REVIEW_REJECT: KycDecision.REVIEW,
    Behaviour.EARLY_APPROVE: KycDecision.REVIEW,
}
OUTAGES = {
    Behaviour.BUSY: "kyc: the provider answers with status 429",
    Behaviour.ERROR: "kyc: the provider answers with status 500",
    Behaviour.REDIRECT: "kyc: the provider answers with status 307, which is no verdict",
    Behaviour.GARBAGE: "kyc: the provider's answer is not what its contract says",
    Behaviour.HUGE: "kyc: the answer is longer than 65536 bytes",
    Behaviour.CLOSE: "kyc: ProtocolError",
    Behaviour.HANG: "kyc: ReadTimeoutError",
    Behaviour.DRIP: "kyc: ",
    Behaviour.DRIP_HEADERS: "kyc: ",
}
KEPT = (Behaviour.REFUSE, Behaviour.BUSY, Behaviour.ERROR, Behaviour.REDIRECT)
"""Behaviours without a verdict that leave the connection usable."""

SLOW = {Behaviour.HANG: (20, 1), Behaviour.DRIP: (2, 1), Behaviour.DRIP_HEADERS: (2, 1)}
OTHER = replace(PAYMENT, key="order-2026-000102")


def test_the_tests_cover_each_behaviour_of_the_simulator() -> None:
    assert DECISIONS.keys() | OUTAGES.keys() | {Behaviour.REFUSE} == set(Behaviour)


@pytest.mark.parametrize("behaviour", DECISIONS)
def test_each_decision_of_the_provider_becomes_a_verdict(
    simulator: Counting, ask: Ask, behaviour: Behaviour
) -> None:
    simulator.state.behaviour = behaviour

    verdict = ask(client(simulator.url))

    assert verdict == Verdict(
        decision=DECISIONS[behaviour],
        reference=f"ver_{PAYMENT.key}",
        reason=f"simulated: {behaviour}",
        provider="verifications",
    )
    assert simulator.state.calls == 1


@pytest.mark.parametrize("behaviour", [Behaviour.REFUSE, *OUTAGES])
def test_a_failed_call_is_made_once_and_the_next_succeeds(
    simulator: Counting, ask: Ask, behaviour: Behaviour
) -> None:
    asking = client(simulator.url, SLOW.get(behaviour, (20, 20)))

    answer = ask(asking, replace(PAYMENT, payee=f"kyc-{behaviour}"))

    if behaviour is Behaviour.REFUSE:
        assert answer == Refused(400)
    else:
        assert isinstance(answer, KycUnavailable)
        assert str(answer).startswith(OUTAGES[behaviour])
    assert simulator.state.calls == 1
    be_patient(asking)
    verdict = ask(asking, OTHER)
    assert isinstance(verdict, Verdict)
    assert verdict.reference == f"ver_{OTHER.key}"
    assert simulator.connections == (1 if behaviour in KEPT else 2)


def test_a_refused_api_key_is_reported_as_refused(simulator: Counting, ask: Ask) -> None:
    simulator.state.api_keys = ["new"]
    asking = client(simulator.url)

    assert ask(asking) == Refused(401)

    simulator.state.api_keys = [API_KEY]
    assert isinstance(ask(asking), Verdict)


def test_a_late_answer_is_not_used_for_the_next_question(simulator: Counting, ask: Ask) -> None:
    simulator.state.delay_seconds = 3
    asking = client(simulator.url, (20, 1))
    assert str(ask(asking)) == "kyc: ReadTimeoutError"
    be_patient(asking)

    verdict = ask(asking, OTHER)

    assert isinstance(verdict, Verdict)
    assert verdict.reference == f"ver_{OTHER.key}"
