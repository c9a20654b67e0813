from dataclasses import replace
from typing import Any

import pytest

from settlement.accounts.order import AccountOrder, OrderKind, parse_account_order
from settlement.core.model.errors import InvalidRequest
from settlement.http.caller import Caller
from tests.unit.vectors import CONFIG

CAROL = Caller(by="arn:aws:iam::1:user/carol", user_id="AIDACAROL", request_id="req-1", source_ip="192.0.2.7")
COMMON = {"key": "deposit-account-0001", "account": "alice", "reason": "as agreed"}
DEPOSIT = {**COMMON, "order": "deposit", "currency": "EUR", "amount": "48.2", "reference": "bank-0001"}
FREEZE = {**COMMON, "order": "freeze"}
OPEN = {**COMMON, "order": "open", "currency": "EUR"}
LINE = "must be one line of at most 500 printable characters, not blank"


def problems(raw: object) -> list[str]:
    with pytest.raises(InvalidRequest) as refused:
        parse_account_order(raw, CAROL, CONFIG)
    return str(refused.value).split("; ")


def test_a_deposit_is_parsed_to_minor_units_and_rendered_canonically() -> None:
    order = parse_account_order({**DEPOSIT, "reason": " as agreed "}, CAROL, CONFIG)

    assert (order.amount, order.currency, order.reason) == (4820, "EUR", "as agreed")
    assert order.to_wire(CONFIG) == {**DEPOSIT, "amount": "48.20", "by": CAROL.by}
    assert (
        order.request_hash == parse_account_order({**DEPOSIT, "amount": "48.20"}, CAROL, CONFIG).request_hash
    )


@pytest.mark.parametrize("raw", [OPEN, FREEZE], ids=["open", "freeze"])
def test_an_order_without_money_reads_back_unchanged(raw: dict[str, Any]) -> None:
    assert parse_account_order(raw, CAROL, CONFIG).to_wire(CONFIG) == raw | {"by": CAROL.by}


def test_the_authors_identity_is_recorded_but_not_hashed() -> None:
    orders = [
        parse_account_order(DEPOSIT, replace(CAROL, request_id=each), CONFIG) for each in ("req-1", "req-2")
    ]

    assert [order.to_row()["request_id"] for order in orders] == ["req-1", "req-2"]
    assert orders[0].to_row().items() >= CAROL.proof.items()
    assert orders[0].request_hash == orders[1].request_hash
    assert AccountOrder.from_row({"pk": f"ORDER#{COMMON['key']}", **orders[0].to_row()}) == orders[0]


@pytest.mark.parametrize("account", [".", ".."])
def test_no_account_can_be_opened_with_a_dot_segment_name(account: str) -> None:
    expected = ["account: must not be . or .., which clients of HTTP drop from an address"]

    assert problems({**OPEN, "account": account}) == expected
    assert parse_account_order({**OPEN, "account": "..."}, CAROL, CONFIG).account == "..."


@pytest.mark.parametrize("kind", [kind for kind in OrderKind if kind is not OrderKind.OPEN])
def test_an_existing_account_with_a_dot_segment_name_accepts_orders(kind: OrderKind) -> None:
    raw = {name: value for name, value in DEPOSIT.items() if name in kind.fields} | {"order": kind}

    assert parse_account_order({**raw, "account": ".."}, CAROL, CONFIG).account == ".."


@pytest.mark.parametrize("raw", [None, [], "open", 7])
def test_an_order_that_is_not_a_json_object_is_refused(raw: object) -> None:
    assert problems(raw) == ["order: must be a JSON object with key, order, account and reason"]


@pytest.mark.parametrize("kind", [None, "melt", "OPEN", 7, ["open"], {}])
def test_an_order_of_an_unknown_kind_is_refused(kind: object) -> None:
    expected = ["order: must be one of open, deposit, withdraw, freeze, unfreeze, close"]

    assert problems({**DEPOSIT, "order": kind}) == expected
    assert problems({name: value for name, value in DEPOSIT.items() if name != "order"}) == expected


@pytest.mark.parametrize("kind", OrderKind)
def test_each_missing_field_of_an_order_is_named(kind: OrderKind) -> None:
    missing = [f"{name}: missing" for name in sorted(kind.fields) if name not in ("order", "by")]

    assert problems({"order": kind}) == missing


@pytest.mark.parametrize(
    ("raw", "unknown"),
    [
        ({**OPEN, "amount": "1.00"}, "amount"),
        ({**FREEZE, "currency": "EUR"}, "currency"),
        ({**FREEZE, "reference": "bank"}, "reference"),
        ({**DEPOSIT, "posted_at": "2026-11-22"}, "posted_at"),
        *(({**raw, "by": "eve"}, "by") for raw in (OPEN, FREEZE, DEPOSIT)),
        ({**DEPOSIT, "proof": {}}, "proof"),
    ],
)
def test_an_unknown_field_is_refused_naming_the_known_fields(raw: dict[str, Any], unknown: str) -> None:
    fields = ", ".join(name for name in OrderKind(raw["order"]).fields if name != "by")

    assert "; ".join(problems(raw)) == f"{unknown}: unknown field; the fields are {fields}"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"key": "short"}, "key: must be a string that matches ^[A-Za-z0-9_-]{16,64}$"),
        ({"key": 7}, "key: must be a string that matches ^[A-Za-z0-9_-]{16,64}$"),
        ({"account": "fees:EUR"}, "account: must be a string that matches ^[A-Za-z0-9_.-]{1,64}$"),
        ({"account": ["alice"]}, "account: must be a string that matches ^[A-Za-z0-9_.-]{1,64}$"),
        ({"currency": "XXX"}, "currency: must be one of EUR, JPY, KWD"),
        ({"currency": ["EUR"]}, "currency: must be one of EUR, JPY, KWD"),
        ({"amount": 48.2}, "amount: must be a decimal string with at most 2 decimals"),
        ({"amount": "48.201"}, "amount: must be a decimal string with at most 2 decimals"),
        ({"amount": "-1"}, "amount: must be a decimal string with at most 2 decimals"),
        ({"amount": "0.00"}, "amount: must be greater than zero"),
        ({"reference": " "}, f"reference: {LINE}"),
        ({"reference": 7}, f"reference: {LINE}"),
        ({"reason": "x" * 501}, f"reason: {LINE}"),
        ({"reason": None}, f"reason: {LINE}"),
    ],
)
def test_a_malformed_field_is_named(change: dict[str, Any], told: str) -> None:
    (problem,) = problems(DEPOSIT | change)

    assert problem.startswith(told)


def test_all_problems_of_an_order_are_named_at_once() -> None:
    told = problems({**DEPOSIT, "key": "x", "amount": "0", "reason": ""})

    assert [problem.partition(":")[0] for problem in told] == ["amount", "key", "reason"]
