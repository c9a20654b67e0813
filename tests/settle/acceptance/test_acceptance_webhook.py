import json
import time
from types import SimpleNamespace
from typing import cast

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from settle.acceptance.provider import ERROR, REVIEW
from settle.acceptance.run import Run
from settle.acceptance.webhook import Event, foreign_secret, signed
from settle.accounts import accounts
from settle.local.kyc_behaviour import Behaviour, behaviour_of
from settle.stack import Stack
from settlement.core.model.request import ACCOUNT
from settlement.core.model.verdict import parse_verdict


def test_an_event_is_signed_as_the_specification_has_it() -> None:
    event, secret = Event("acceptance-1"), foreign_secret()
    headers = signed(event, secret, int(time.time()))

    assert Webhook(secret).verify(event.body, headers) == json.loads(event.body)
    with pytest.raises(WebhookVerificationError):
        Webhook(foreign_secret()).verify(event.body, headers)


def test_an_event_has_a_verdict_of_the_contract() -> None:
    content = json.loads(Event("acceptance-1").body)

    assert parse_verdict(content, "webhook").decision == "APPROVED"


@pytest.mark.parametrize(("told", "behaviour"), [(ERROR, Behaviour.ERROR), (REVIEW, Behaviour.REVIEW)])
def test_an_account_tells_the_simulated_provider_how_to_behave(
    monkeypatch: pytest.MonkeyPatch, told: str, behaviour: Behaviour
) -> None:
    monkeypatch.setattr(accounts, "open_account", lambda *order, reason: None)
    stack = SimpleNamespace(config=SimpleNamespace(currencies={"EUR": 2}))
    payer = Run(cast(Stack, stack)).account("circuit-good-a", provider=told)

    assert ACCOUNT.fullmatch(payer)
    assert behaviour_of({"payer": payer, "payee": "bob"}, Behaviour.APPROVE) is behaviour
