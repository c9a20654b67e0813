import json

import pytest

from settle.accounts import statement
from settle.settlements.machines import Machine
from settle.settlements.start import start
from tests.e2e.embedded import Embedded, at_once, new_account, new_key, new_request
from tests.e2e.people import person, routes

pytestmark = pytest.mark.long


def shown(embedded: Embedded, merchant: str) -> tuple[str, str]:
    found = statement.show(embedded.stack, merchant)
    return found["available"], found["unswept"]


def test_the_stream_makes_a_merchants_releases_available(embedded: Embedded) -> None:
    """All concurrent payments settle, because no two releases share a row."""
    merchant = new_account(embedded, "merchant.shop")
    payer = new_account(embedded, "dora", "100.00")
    wanted = {"payer": payer, "payee": merchant, "amount": "1.00", "fee": "0.00", "currency": "EUR"}
    requests = [wanted | {"key": new_key("shop")} for _ in range(12)]

    ended = at_once(
        [lambda one=one: start(embedded.stack, Machine.STANDARD, json.dumps(one)) for one in requests], 6
    )

    assert {one.outcome and one.outcome["status"] for one in ended} == {"SETTLED"}
    embedded.wait_for(lambda: shown(embedded, merchant) == ("12.00", "0.00"))
    assert embedded.conserved()


def test_a_merchants_payment_can_be_refunded_before_any_sweep(embedded: Embedded) -> None:
    merchant = new_account(embedded, "merchant.kiosk")
    request = new_request(embedded, payee=merchant)
    start(embedded.stack, Machine.STANDARD, json.dumps(request))

    told = embedded.told("reverse", request["key"], "--reason", "sent back")

    assert told["status"] == "COMPENSATED"
    assert embedded.available(request["payer"]) == "100.00"
    embedded.wait_for(lambda: shown(embedded, merchant) == ("0.00", "0.00"))
    assert embedded.conserved()


def test_a_person_sweeps_releases_while_the_sweep_function_lacks_permissions(embedded: Embedded) -> None:
    merchant = new_account(embedded, "merchant.stall")
    with embedded.without_grants("SweepMerchants"):
        request = new_request(embedded, payee=merchant)
        start(embedded.stack, Machine.STANDARD, json.dumps(request))
        assert shown(embedded, merchant) == ("0.00", "47.72")

        told = embedded.told("account", "sweep", merchant)

        assert told["folded"] == "47.72"
    assert shown(embedded, merchant) == ("47.72", "0.00")
    assert embedded.conserved()


def test_a_person_needs_only_the_api_route_to_sweep(embedded: Embedded) -> None:
    merchant = new_account(embedded, "merchant.booth")
    with embedded.without_grants("SweepMerchants"):
        start(embedded.stack, Machine.STANDARD, json.dumps(new_request(embedded, payee=merchant)))
        with person(embedded, routes(embedded, "recover"), "anna") as anna, embedded.writes_nothing():
            refused = anna.order("sweep", account=merchant)
        with person(embedded, routes(embedded, "sweep"), "olga") as olga:
            told = olga.order("sweep", account=merchant)
            again = olga.order("sweep", account=merchant)

        assert refused.status == 403
        assert (told.status, told.content["folded"], told.content["more"]) == (200, "47.72", False)
        assert (again.status, again.content["folded"]) == (200, "0.00")
    assert shown(embedded, merchant) == ("47.72", "0.00")
    assert embedded.conserved()
