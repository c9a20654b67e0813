"""Schemathesis checks the simulated bank against docs/contracts/bank.openapi.yaml."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import requests
import schemathesis
import yaml
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import (
    negative_data_rejection,
    positive_data_acceptance,
    status_code_conformance,
)
from urllib3.exceptions import ProtocolError

from settle.local.bank_behaviour import CONTRACT, Behaviour
from tests.settle.payouts.wire import PAYS_AFTER, SECONDS_MAX, SimulatedBank, order

_contract = yaml.safe_load(CONTRACT.read_text("utf-8"))
asked = schemathesis.openapi.from_dict({name: part for name, part in _contract.items() if name != "webhooks"})
told = asked["/payouts"]["POST"], asked["/payouts/{reference}"]["GET"]
TELLS_NOTHING = {400, 401, 405, 409}
"""Statuses that the contract does not describe, so they prove nothing."""
NOT_DESCRIBED = {
    Behaviour.FORGET_KEY: 500,
    Behaviour.ERROR_HOUR: 500,
    Behaviour.IN_PROGRESS: 409,
}
SILENT = {
    *(Behaviour.LOSE_ANSWER_AFTER, Behaviour.LOSE_ANSWER_BEFORE, Behaviour.LOSE_FIRST_REQUEST),
    *(Behaviour.ARRIVE_LATE, Behaviour.GARBAGE),
}

reproducible = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


EXPECTED = {"POST": {201, 400, 401}, "GET": {200, 400, 401, 404}}
"""Statuses that the cases of each operation must get."""


@pytest.fixture
def statuses() -> Iterator[dict[str, Counter[int]]]:
    """Counted statuses, by the operation's method in the contract."""
    found: dict[str, Counter[int]] = defaultdict(Counter)
    yield found
    for method, counted in found.items():
        assert counted.keys() >= EXPECTED[method]


@asked.parametrize()
@reproducible
def test_the_simulator_keeps_the_contract(
    case: schemathesis.Case[Any], bank: SimulatedBank, statuses: dict[str, Counter[int]]
) -> None:
    """Half the cases are made payable, or ask for an existing payout, because the schema ensures neither."""
    bank.tell({"tokens": ["secret"]})
    counted, body, parameters = statuses[case.operation.method.upper()], case.body, case.path_parameters
    if counted.total() % 2 == 0:
        if isinstance(body, dict) and isinstance(body.get("reference"), str):
            body |= {"currency": "EUR", "amount": "48.20"}
            case.headers["Idempotency-Key"] = str(body["reference"]).encode("ascii", "replace").decode()
        elif parameters:
            bank.submit(order(reference=parameters["reference"]), {"Authorization": "Bearer secret"})

    response = case.call(base_url=bank.url, headers={"Authorization": "Bearer secret"}, timeout=60)

    counted[response.status_code] += 1
    is_undescribed = response.status_code in TELLS_NOTHING
    case.validate_response(
        response,
        excluded_checks=[
            *(negative_data_rejection, positive_data_acceptance),
            *([status_code_conformance] if is_undescribed else []),
        ],
    )


@pytest.mark.parametrize("behaviour", [one for one in Behaviour if one not in SILENT])
def test_each_answer_to_an_order_is_in_the_contract(bank: SimulatedBank, behaviour: Behaviour) -> None:
    bank.server.stopped.set()
    sent = order(behaviour)
    headers = {"Authorization": "Bearer any", "Idempotency-Key": sent["reference"]}

    answer = requests.post(f"{bank.url}/payouts", json=sent, headers=headers, timeout=SECONDS_MAX)

    if behaviour in NOT_DESCRIBED:
        assert answer.status_code == NOT_DESCRIBED[behaviour]
    else:
        told[0].validate_response(answer)


@pytest.mark.parametrize("behaviour", [one for one in Behaviour if one is not Behaviour.ERROR_HOUR])
def test_each_answer_to_a_status_query_is_in_the_contract(bank: SimulatedBank, behaviour: Behaviour) -> None:
    bank.server.stopped.set()
    sent = order(behaviour)
    with suppress(ProtocolError):
        bank.submit(sent)
    for seconds in (0, PAYS_AFTER, 3 * 86_400):
        bank.advance(seconds)
        answer = requests.get(
            f"{bank.url}/payouts/{sent['reference']}",
            headers={"Authorization": "Bearer any"},
            timeout=SECONDS_MAX,
        )
        told[1].validate_response(answer)
