from collections.abc import Callable
from typing import Any

import pytest
import yaml

from infra.orders import routes
from infra.rooms import ORDERS
from settlement.accounts.order import OrderKind, parse_account_order
from settlement.core.model import orders
from settlement.core.model.errors import InvalidRequest
from settlement.core.model.orders import Decision
from settlement.core.model.request import ACCOUNT, KEY
from settlement.events import replay as replay_order
from settlement.http.caller import Caller
from settlement.orders import requests as order_requests
from settlement.payouts.decision import Verdict, parse_decision
from settlement.payouts.destination import parse_destination
from settlement.payouts.payout import DESTINATION, HOLDER_LENGTH_MAX
from settlement.payruns import file, run
from settlement.payruns import orders as payrun_orders
from tests.unit.vectors import CONFIG
from tests.world.environment import NOW
from tests.world.templates import PROJECT

CONTRACT: dict[str, Any] = yaml.safe_load((PROJECT / "docs/contracts/orders.openapi.yaml").read_text())
SCHEMAS = CONTRACT["components"]["schemas"]
RULES = payrun_orders.Rules(over={}, lines_over=1_000)
OLGA = Caller(by="arn", user_id="AIDA", request_id="r", source_ip="192.0.2.7")
PARSERS: dict[str, Callable[[dict[str, Any]], object]] = {
    "Resolution": lambda raw: order_requests.parse_resolution(raw, OLGA),
    "Reversal": lambda raw: order_requests.parse_reversal(raw, OLGA),
    "PartialReversal": lambda raw: order_requests.parse_part(raw, OLGA, 2),
    "Approval": lambda raw: order_requests.parse_shown(raw, "write-off"),
    "ApprovalOfReversal": lambda raw: order_requests.parse_shown(raw, "reverse"),
    "ApprovalOfPart": lambda raw: order_requests.parse_shown(raw, "reverse-part"),
    "Withdrawal": lambda raw: order_requests.parse_named(raw, "reverse"),
    "Recovery": order_requests.parse_recovery,
    "Replay": replay_order.parse_replay,
    "Payee": parse_destination,
    "PayoutDecision": parse_decision,
    "PayRunProposal": lambda raw: payrun_orders.parse_proposal(raw, RULES, CONFIG, OLGA, NOW),
    "ShownPayRun": payrun_orders.parse_shown,
    "AccountOrder": lambda raw: parse_account_order({"order": "freeze", **raw}, OLGA, CONFIG),
}


def test_the_contracts_routes_are_those_of_the_code() -> None:
    assert CONTRACT["paths"].keys() == {f"/orders/{route}" for route in routes(ORDERS)}


def test_the_contracts_decisions_and_limits_are_those_of_the_code() -> None:
    assert SCHEMAS["Resolution"]["properties"]["decision"]["enum"] == [*Decision]
    assert SCHEMAS["AccountOrder"]["properties"]["order"]["enum"] == [*OrderKind]
    assert SCHEMAS["Key"]["pattern"] == f"^{KEY.pattern}$"
    assert SCHEMAS["AccountOrder"]["properties"]["account"]["pattern"] == f"^{ACCOUNT.pattern}$"
    assert SCHEMAS["Line"]["maxLength"] == orders.TEXT_LENGTH_MAX
    assert SCHEMAS["Resolution"]["properties"]["case"]["maximum"] == orders.CASES_MAX
    assert SCHEMAS["Replay"]["properties"]["keys"]["maxItems"] == replay_order.REPLAYED_MAX
    assert SCHEMAS["PartialReversal"]["properties"]["part"]["maximum"] == orders.CASES_MAX
    assert SCHEMAS["PayoutDecision"]["properties"]["case"]["maximum"] == orders.CASES_MAX
    assert SCHEMAS["PayoutDecision"]["properties"]["verdict"]["enum"] == [*Verdict]
    assert SCHEMAS["PayRunProposal"]["properties"]["kind"]["enum"] == [*file.Kind]
    assert SCHEMAS["PayRunProposal"]["properties"]["lines"]["maximum"] == file.LINES_MAX
    assert SCHEMAS["PayRunProposal"]["properties"]["name"]["pattern"] == f"^{file.NAME.pattern}$"
    assert SCHEMAS["PayRun"]["properties"]["status"]["enum"] == [*run.Status]
    assert SCHEMAS["PayeeId"]["pattern"] == f"^{DESTINATION.pattern}$"
    assert SCHEMAS["Payee"]["properties"]["holder"]["maxLength"] == HOLDER_LENGTH_MAX


@pytest.mark.parametrize("name", PARSERS)
def test_the_code_demands_the_fields_that_the_contract_demands(name: str) -> None:
    with pytest.raises(InvalidRequest) as missing:
        PARSERS[name]({})

    told = {problem.partition(":")[0] for problem in str(missing.value).split("; ")}
    assert told == {*SCHEMAS[name]["required"]} - {"order"}


@pytest.mark.parametrize("name", PARSERS)
def test_a_field_that_the_contract_lacks_is_refused(name: str) -> None:
    assert SCHEMAS[name]["additionalProperties"] is False
    assert "by" not in SCHEMAS[name]["properties"]
    with pytest.raises(InvalidRequest, match=r"by: unknown field"):
        PARSERS[name]({"by": "arn"})
