import json

import pytest

from settle.settlements.machines import Machine
from settle.settlements.start import start
from tests.e2e.embedded import Embedded, at_once, new_account, new_request
from tests.e2e.people import person, routes

pytestmark = pytest.mark.long


def settled(embedded: Embedded, payee: str = "merchant.kiosk") -> dict[str, str]:
    """Return the request of a settled payment of 48.20 with a fee of 0.48."""
    request = new_request(embedded, payee=new_account(embedded, payee))
    start(embedded.stack, Machine.STANDARD, json.dumps(request))
    return request


def test_only_a_person_with_the_route_reverses_a_part(embedded: Embedded) -> None:
    request = settled(embedded)
    order = {"key": request["key"], "part": 1, "amount": "5.00", "reason": "one came back"}

    before = embedded.settlement(request["key"])  # a sweep writes the merchant's rows about now
    with person(embedded, routes(embedded, "reverse")) as other:
        refused = other.order("reverse-part", **order)
    assert embedded.settlement(request["key"]) == before
    with person(embedded, routes(embedded, "reverse-part")) as olga:
        both = at_once([lambda: olga.order("reverse-part", **order) for _ in range(2)], 2)
        above = olga.order("reverse-part", **order | {"part": 2, "amount": "42.73"})

    assert refused.status == 403
    assert [one.status for one in both] == [200, 200]
    assert both[0].content == both[1].content
    assert both[0].content["order"]["by"] == olga.arn
    assert (above.status, above.content["error"]) == (409, "PartRefused")
    told = embedded.told("status", request["key"])
    assert (told["status"], told["reversed_in_part"]) == ("SETTLED", "5.00")
    assert embedded.available(request["payer"]) == "56.80"
    assert embedded.conserved()


def test_reversals_in_part_give_back_at_most_the_released_amount(embedded: Embedded) -> None:
    request = settled(embedded, "greta")
    key, why = request["key"], ("--reason", "sent back")

    embedded.told("reverse", key, "--amount", "40.00", *why)
    told = embedded.told("reverse", key, "--amount", "7.72", *why)
    again = embedded.told("reverse", key, "--amount", "7.72", "--part", "2", *why)

    assert told == again
    assert (told["status"], told["reversed_in_part"]) == ("SETTLED", "47.72")
    code, message = embedded.refused("reverse", key, *why)
    assert (code, "2 parts were reversed: reverse the rest in part" in message) == (6, True)
    assert embedded.available(request["payer"]) == "99.52"
    assert embedded.conserved()
