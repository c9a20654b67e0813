"""No secret of the client and no personal data gets into a log line or an error."""

import traceback

import pytest

from settle.local.kyc_behaviour import Behaviour
from settlement.model.errors import KycUnavailable
from settlement.model.settlement import Settlement
from settlement.model.stage_config import StageConfig
from tests.kyc.conftest import Counting, Said, url
from tests.kyc.raw import IMPATIENT, VERDICT, Talk, answer, client, dripping, raw

API_KEY = "canary-of-the-api-key"
PERSON = b"canary-of-a-person"
CANARIES = (API_KEY, PERSON.decode(), "alice", "bob", "48.20")
PERSONAL = VERDICT.replace(b"nothing is known", PERSON)

ANSWERS: dict[str, Talk | bytes] = {
    "an approval": answer(PERSONAL),
    "a rejection": answer(PERSONAL.replace(b"APPROVED", b"REJECTED")),
    "a refusal": answer(PERSONAL, 422),
    "an outage": answer(PERSONAL, 503),
    "a redirect": answer(PERSONAL, 307, b"Location: http://127.0.0.1:1/" + PERSON),
    "no JSON": answer(PERSON),
    "no verdict": answer(b'{"decision": "%b", "reference": "%b"}' % (PERSON, PERSON)),
    "a reference that is free text": answer(VERDICT.replace(b"ver_1", b"of " + PERSON)),
    "not HTTP": PERSON + b"\r\n\r\n",
    "a status that is no number": b"HTTP/1.1 " + PERSON + b"\r\n\r\n",
    "a body that is cut": answer(PERSONAL)[:-1],
    "a chunk of no length": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + PERSON + b"\r\n",
    "a header that is none": answer(VERDICT, 200, PERSON, b"X: y"),
    "headers that are cut": b"HTTP/1.1 200 OK\r\n" + PERSON,
    "headers that drip": dripping(b"HTTP/1.1 200 OK\r\n" + PERSON, b"x"),
}


@pytest.mark.parametrize("behaviour", Behaviour)
def test_no_behaviour_brings_a_secret_or_a_party_to_light(
    simulator: Counting,
    settlement: Settlement,
    config: StageConfig,
    said: Said,
    behaviour: Behaviour,
) -> None:
    simulator.state.behaviour = behaviour
    simulator.state.api_keys = [API_KEY]

    text = _text_of_error(url(simulator), settlement, config)

    _assert_no_canary(text + said())


@pytest.mark.parametrize("spoken", ANSWERS.values(), ids=ANSWERS)
def test_no_answer_brings_a_secret_or_a_person_to_light(
    settlement: Settlement, config: StageConfig, said: Said, spoken: Talk | bytes
) -> None:
    with raw(spoken) as server:
        text = _text_of_error(
            server.url, settlement, config, **({} if isinstance(spoken, bytes) else IMPATIENT)
        )

    _assert_no_canary(text + said())


def test_the_provider_and_its_status_are_logged(
    settlement: Settlement, config: StageConfig, said: Said
) -> None:
    with raw(answer()) as server:
        client(server.url, config).ask(settlement, API_KEY)

    assert "'provider': 'verifications'" in said()
    assert "'http_status': 200" in said()


def _text_of_error(address: str, settlement: Settlement, config: StageConfig, **timeouts: float) -> str:
    """Return the error's text in the forms in which a caller may log it."""
    try:
        client(address, config, **timeouts).ask(settlement, API_KEY)
    except KycUnavailable as error:
        return f"{error} {error!r} " + "".join(traceback.format_exception_only(error))
    return ""


def _assert_no_canary(text: str) -> None:
    assert [canary for canary in CANARIES if canary in text] == []
