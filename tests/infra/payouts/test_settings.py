import json
from dataclasses import replace
from typing import Any

import pytest

from infra import payouts_config
from infra.config import STAGES, Settings, embedded, settings_of
from infra.payouts_config import EXCHANGE_SECONDS_MAX, NOT_NAMED, PayoutSettings
from settle.local import bank_statements
from settlement.bank import fields
from settlement.payouts import policy, port
from tests.infra.payouts.stage import ON, PAYOUTS

NUMBERS = {
    "window_seconds": (0, port.WINDOW_SECONDS_MAX),
    "rest_seconds": (0, 30 * 86_400),
    "connect_timeout_seconds": (1, 14),
    "read_timeout_seconds": (1, 14),
    "failures": (3, 50),
    "failures_within_seconds": (60, 86_400),
    "recovery_seconds": (1, 3600),
}
REFUSED: list[tuple[dict[str, Any], str]] = [
    *(
        ({"url": url}, "bank_url: must be an address without user, query or fragment$")
        for url in ("", "bank.example", "ftp://bank.example", "https://a:b@bank.example", "https://b?key=1")
    ),
    *(({"name": name}, "name: must match ") for name in ("", "Bank", "a" * 31, "bank\n", "-bank")),
    *(({"refusals": (one,)}, "refusals: each must match ") for one in ("", "Closed", "a" * 51, "x\n", 3)),
    *(
        ({"accounts": accounts}, "accounts: must name accounts as statements do")
        for accounts in ((), ("",), ("DE02 1203",), ("de02",), (1,), (PAYOUTS.accounts[0], None))
    ),
    ({"accounts": PAYOUTS.accounts[0]}, "accounts: must name accounts as statements do"),
    *(
        ({name: value}, f"{name}: must be a whole number from {least} to {most}$")
        for name, (least, most) in NUMBERS.items()
        for value in (least - 1, most + 1, True, "5", None)
    ),
    # The payout would be asked about before its request has ended.
    (
        {"connect_timeout_seconds": 5, "read_timeout_seconds": 11},
        "read_timeout_seconds: both timeouts must be at most 15 s together$",
    ),
    ({"recovery_seconds": 12}, "recovery_seconds: must be longer than a probe takes"),
    ({"day": {"EUR": "1", "USD": "1"}}, "day: must name the currencies of payout, and at least one$"),
    ({"payout": {}, "day": {}}, "day: must name the currencies of payout, and at least one$"),
]


@pytest.mark.parametrize(("changes", "told"), REFUSED)
def test_a_faulty_setting_of_the_bank_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=f"^{told}"):
        replace(PAYOUTS, **changes)


@pytest.mark.parametrize("name", NUMBERS)
def test_the_banks_numeric_settings_are_accepted_at_their_bounds(name: str) -> None:
    """`recovery_seconds` must exceed a probe, which takes two seconds here."""
    quick = {"connect_timeout_seconds": 1, "read_timeout_seconds": 1, "recovery_seconds": 3_600}
    for bound in NUMBERS[name]:
        value = max(bound, 3) if name == "recovery_seconds" else bound
        changes: dict[str, Any] = {**quick, name: value}
        assert getattr(replace(PAYOUTS, **changes), name) == value


def test_settings_and_functions_have_the_same_bounds() -> None:
    assert payouts_config._NAME.pattern == port.NAME.pattern
    assert payouts_config._REASON.pattern == port.REASON.pattern
    assert STAGES["local"].bank.accounts == (bank_statements.IBAN,)
    assert policy.EXCHANGE_WITHIN.total_seconds() == EXCHANGE_SECONDS_MAX


@pytest.mark.parametrize("told", ["de02 1203 0000 0000 2020 51", "acc-7/a", "\u00a012\u2003b"])
def test_an_account_as_written_in_statements_is_accepted(told: str) -> None:
    read = fields.account(told)

    assert replace(PAYOUTS, accounts=(read,)).accounts == (read,)


def of_a_stage(**changes: Any) -> Settings:
    given: dict[str, Any] = {"stage": "shop", "currencies": ("EUR", "JPY"), "assets": {"POINTS": 0}}
    return Settings(**{**given, **ON, **changes})


def limited(payout: dict[str, Any], day: dict[str, Any]) -> PayoutSettings:
    return replace(PAYOUTS, payout=payout, day=day)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"statements_every_minutes": None}, "payouts: needs statements_every_minutes"),
        ({"payouts": replace(PAYOUTS, url="http://bank.example")}, "bank_url: must be an HTTPS address$"),
        ({"payouts": limited({"USD": "1"}, {"USD": "1"})}, "payouts.payout: USD is not among"),
        ({"payouts": limited({"POINTS": "1"}, {"POINTS": "1"})}, "payouts.payout: POINTS is an asset"),
        ({"payouts": limited({"JPY": "1.5"}, {"JPY": "2"})}, "payouts.payout: JPY must be a decimal string"),
        ({"payouts": limited({"EUR": "1"}, {"EUR": 2})}, "payouts.day: EUR must be a decimal string"),
        ({"payouts": limited({"EUR": "2.00"}, {"EUR": "1.99"})}, "payouts.day: EUR must be at least"),
        ({"payouts": limited({"EUR": "0"}, {"EUR": "1"})}, "payouts.day: EUR must be at least"),
    ],
)
def test_payout_settings_that_contradict_the_stage_are_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=f"^{told}"):
        of_a_stage(**changes)


def test_a_stage_converts_limits_to_minor_units() -> None:
    given = limited({"EUR": "1.5", "JPY": "7"}, {"EUR": "1.50", "JPY": "8"})

    assert of_a_stage(payouts=given).payout_limits == ({"EUR": 150, "JPY": 7}, {"EUR": 150, "JPY": 8})


def test_the_embedded_aws_gets_a_simulated_bank_with_equal_limits() -> None:
    place = {"python": "/usr/bin/python3", "kyc_url": "http://127.0.0.1:8081"}
    found = embedded(of_a_stage(), **place, bank_url="http://127.0.0.1:9").payouts

    assert found is not None
    assert (found.url, found.rest_seconds, found.payout) == ("http://127.0.0.1:9", 0, PAYOUTS.payout)
    assert found.accounts == (bank_statements.IBAN,)
    assert embedded(of_a_stage(), **place).payouts is None
    assert embedded(of_a_stage(payouts=None), **place, bank_url="http://127.0.0.1:9").payouts is None


def test_the_local_stage_uses_the_bank_url_of_its_context() -> None:
    found = settings_of({"stage": "local", "bank_url": "http://127.0.0.1:9"}).bank

    assert found == replace(STAGES["local"].bank, url="http://127.0.0.1:9")
    assert {**found.payout} == {"EUR": "5000.00", "USD": "5000.00"}


def test_a_bank_url_and_payouts_are_refused_without_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {"stage": "dev", "kyc_url": "https://kyc.example"}
    with pytest.raises(ValueError, match=r"^bank_url: must be left out, as the stage pays nothing out$"):
        settings_of({**given, "bank_url": "https://bank.example"})
    paying = replace(STAGES["dev"], **ON | {"payouts": replace(PAYOUTS, url=NOT_NAMED)})
    monkeypatch.setitem(STAGES, "dev", paying)
    with pytest.raises(ValueError, match=r"^bank_url: name the bank's address"):
        settings_of(given)

    assert settings_of({**given, "bank_url": "https://bank.example"}).bank.url == "https://bank.example"


def test_the_followers_variable_has_the_contracts_fields() -> None:
    told = json.loads(PAYOUTS.to_json({"EUR": 1}, {"EUR": 2}, secret_id="arn"))

    assert told.keys() == {"limits", "accounts", "bank", "breaker", "secret_id"}
    assert told["accounts"] == list(PAYOUTS.accounts)
    port.Declared(
        name=told["bank"]["name"],
        window_seconds=told["bank"]["window_seconds"],
        refusals=frozenset(told["bank"]["refusals"]),
    )
