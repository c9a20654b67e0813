"""The client's reading of each behaviour of a provider, over real HTTP."""

import json
import time
from dataclasses import replace

import pytest

from settle.local.kyc_behaviour import Behaviour
from settlement.adapters.kyc_client import Refused
from settlement.model.errors import KycUnavailable
from settlement.model.settlement import Settlement
from settlement.model.stage_config import StageConfig
from settlement.model.verdict import KycDecision, Verdict
from tests.kyc.conftest import Counting, url
from tests.kyc.raw import WAIT_SECONDS_MAX, client

IN_REVIEW = {Behaviour.REVIEW, Behaviour.REVIEW_APPROVE, Behaviour.REVIEW_REJECT, Behaviour.EARLY_APPROVE}
DECISIONS = {
    Behaviour.APPROVE: KycDecision.APPROVED,
    Behaviour.REJECT: KycDecision.REJECTED,
    **dict.fromkeys(IN_REVIEW, KycDecision.REVIEW),
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


def test_no_behaviour_of_the_simulator_goes_untested() -> None:
    assert DECISIONS.keys() | OUTAGES.keys() | {Behaviour.REFUSE} == set(Behaviour)


@pytest.mark.parametrize("behaviour", DECISIONS)
def test_a_decision_is_a_verdict(
    simulator: Counting, settlement: Settlement, config: StageConfig, behaviour: Behaviour
) -> None:
    simulator.state.behaviour = behaviour

    verdict = client(url(simulator), config).ask(settlement, "secret")

    assert verdict == Verdict(
        decision=DECISIONS[behaviour],
        reference=f"ver_{settlement.key}",
        reason=f"simulated: {behaviour}",
        provider="verifications",
    )
    assert simulator.state.calls == 1


def test_a_refused_request_is_an_answer(
    simulator: Counting, settlement: Settlement, config: StageConfig
) -> None:
    simulator.state.behaviour = Behaviour.REFUSE

    assert client(url(simulator), config).ask(settlement, "secret") == Refused(400)
    assert simulator.state.calls == 1


def test_a_refused_api_key_is_an_answer_that_wants_another_key(
    simulator: Counting, settlement: Settlement, config: StageConfig
) -> None:
    simulator.state.api_keys = ["new"]
    asking = client(url(simulator), config)

    refused = asking.ask(settlement, "old")

    assert refused == Refused(401)
    assert isinstance(refused, Refused)
    assert refused.wants_another_key
    assert isinstance(asking.ask(settlement, "new"), Verdict)


@pytest.mark.parametrize("behaviour", OUTAGES)
def test_everything_else_is_an_outage_and_the_provider_is_asked_once(
    simulator: Counting, settlement: Settlement, config: StageConfig, behaviour: Behaviour
) -> None:
    simulator.state.behaviour = behaviour
    began = time.monotonic()

    with pytest.raises(KycUnavailable) as outage:
        client(url(simulator), config).ask(settlement, "secret")

    assert str(outage.value).startswith(OUTAGES[behaviour])
    assert simulator.state.calls == 1
    assert time.monotonic() - began < WAIT_SECONDS_MAX  # a drip left alone takes longer


@pytest.mark.parametrize("behaviour", OUTAGES)
def test_after_an_outage_the_same_client_gets_its_own_answer(
    simulator: Counting, settlement: Settlement, config: StageConfig, behaviour: Behaviour
) -> None:
    asking = client(url(simulator), config)
    with pytest.raises(KycUnavailable):
        asking.ask(replace(settlement, payee=f"kyc-{behaviour}"), "secret")

    verdict = asking.ask(replace(settlement, key="order-2026-000102"), "secret")

    assert isinstance(verdict, Verdict)
    assert verdict.reference == "ver_order-2026-000102"


def test_an_answer_below_the_read_timeout_is_a_verdict(
    simulator: Counting, settlement: Settlement, config: StageConfig
) -> None:
    simulator.state.delay_seconds = 0.5
    asking = client(url(simulator), config, read_timeout_seconds=10)

    assert isinstance(asking.ask(settlement, "secret"), Verdict)


def test_an_answer_above_the_read_timeout_is_an_outage(
    simulator: Counting, settlement: Settlement, config: StageConfig
) -> None:
    simulator.state.delay_seconds = 5

    with pytest.raises(KycUnavailable, match=r"^kyc: ReadTimeoutError$"):
        client(url(simulator), config).ask(settlement, "secret")


def test_an_answer_at_the_read_timeout_is_one_or_the_other_and_is_not_taken_for_the_next_one(
    simulator: Counting, settlement: Settlement, config: StageConfig
) -> None:
    simulator.state.delay_seconds = 1
    asking = client(url(simulator), config)
    try:
        assert isinstance(asking.ask(settlement, "secret"), Verdict)
    except KycUnavailable as outage:
        assert str(outage) == "kyc: ReadTimeoutError"  # noqa: PT017  # either is right
    simulator.state.delay_seconds = 0

    verdict = asking.ask(replace(settlement, key="order-2026-000102"), "secret")

    assert isinstance(verdict, Verdict)
    assert verdict.reference == "ver_order-2026-000102"


def test_the_same_settlement_gets_the_same_answer_whatever_the_provider_would_say_now(
    simulator: Counting, settlement: Settlement, config: StageConfig
) -> None:
    asking = client(url(simulator), config)
    first = asking.ask(settlement, "secret")
    simulator.state.behaviour = Behaviour.REJECT

    assert asking.ask(settlement, "secret") == first
    assert simulator.state.calls == 2


def test_many_questions_share_a_connection(
    simulator: Counting, settlement: Settlement, config: StageConfig
) -> None:
    asking = client(url(simulator), config)

    for number in range(20):
        asking.ask(replace(settlement, key=f"order-2026-{number:06}"), "secret")

    assert (simulator.state.calls, simulator.connections) == (20, 1)


@pytest.mark.parametrize("behaviour", [Behaviour.REFUSE, Behaviour.BUSY, Behaviour.ERROR, Behaviour.REDIRECT])
def test_an_answer_that_is_no_verdict_keeps_the_connection_too(
    simulator: Counting, settlement: Settlement, config: StageConfig, behaviour: Behaviour
) -> None:
    asking = client(url(simulator), config)
    told = replace(settlement, payee=f"kyc-{behaviour}")
    try:
        asking.ask(told, "secret")
    except KycUnavailable:
        assert behaviour is not Behaviour.REFUSE  # only that one is an answer

    assert isinstance(asking.ask(settlement, "secret"), Verdict)
    assert simulator.connections == 1


def test_json_of_the_control_endpoint_has_no_secret(simulator: Counting) -> None:
    simulator.state.change({"api_keys": ["canary"], "signing_secret": "canary", "webhook_url": "canary"})

    assert "canary" not in json.dumps(simulator.state.describe())
