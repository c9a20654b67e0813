import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from settle.machines import explain
from tests.e2e.embedded import Embedded, new_account, new_key

MISSING = object()

ASCII_ID = "must be a string that matches"
BAD_FIELDS: dict[str, tuple[dict[str, Any], str]] = {
    "amount: a float": ({"amount": 48.20}, "amount: must be a decimal string"),
    "amount: a JSON integer": ({"amount": 48}, "amount: must be a decimal string"),
    "amount: zero": ({"amount": "0.00"}, "amount: must be greater than zero"),
    "amount: negative": ({"amount": "-48.20"}, "amount: must be a decimal string"),
    "amount: with a plus": ({"amount": "+48.20"}, "amount: must be a decimal string"),
    "amount: NaN": ({"amount": "NaN"}, "amount: must be a decimal string"),
    "amount: Infinity": ({"amount": "Infinity"}, "amount: must be a decimal string"),
    "amount: an exponent": ({"amount": "1e3"}, "amount: must be a decimal string"),
    "amount: too many decimals": (
        {"amount": "48.201"},
        "amount: must be a decimal string with at most 2 decimals",
    ),
    "amount: decimals of a currency without": (
        {"amount": "48.20", "currency": "JPY"},
        "amount: must be a decimal string with no decimals",
    ),
    "amount: 16 digits": ({"amount": "12345678901234.00"}, "at most 13 digits"),
    "amount: a leading zero": ({"amount": "048.20"}, "amount: must be a decimal string"),
    "amount: a blank": ({"amount": " 48.20"}, "amount: must be a decimal string"),
    "amount: a line break": ({"amount": "48.20\n"}, "amount: must be a decimal string"),
    "amount: a comma": ({"amount": "48,20"}, "amount: must be a decimal string"),
    "amount: other digits": ({"amount": "٤٨"}, "amount: must be a decimal string"),
    "amount: empty": ({"amount": ""}, "amount: must be a decimal string"),
    "amount: null": ({"amount": None}, "amount: must be a decimal string"),
    "amount: true": ({"amount": True}, "amount: must be a decimal string"),
    "amount: a list": ({"amount": ["48.20"]}, "amount: must be a decimal string"),
    "currency: not accepted": ({"currency": "XAU"}, "currency: must be one of EUR, JPY, KWD, USD"),
    "currency: in small letters": ({"currency": "eur"}, "currency: must be one of EUR, JPY, KWD, USD"),
    "currency: a list": ({"currency": ["EUR"]}, "currency: must be one of EUR, JPY, KWD, USD"),
    "currency: null": ({"currency": None}, "currency: must be one of EUR, JPY, KWD, USD"),
    "fee: as high as the amount": ({"fee": "48.20"}, "fee: must be less than the amount"),
    "fee: higher than the amount": ({"fee": "48.21"}, "fee: must be less than the amount"),
    "fee: negative": ({"fee": "-0.01"}, "fee: must be a decimal string"),
    "fee: a float": ({"fee": 0.48}, "fee: must be a decimal string"),
    "fee: null": ({"fee": None}, "fee: must be a decimal string"),
    "fee: too many decimals": ({"fee": "0.001"}, "fee: must be a decimal string with at most 2 decimals"),
    "payee: the payer": (
        {"payer": "same", "payee": "same"},
        "payee: must be another account than the payer's",
    ),
    "payer: a colon": ({"payer": "fees:EUR"}, f"payer: {ASCII_ID}"),
    "payee: a colon": ({"payee": "external:EUR"}, f"payee: {ASCII_ID}"),
    "payee: a blank": ({"payee": "bob smith"}, f"payee: {ASCII_ID}"),
    "payee: a hash": ({"payee": "bob#BALANCE"}, f"payee: {ASCII_ID}"),
    "payee: a line break": ({"payee": "bob\n"}, f"payee: {ASCII_ID}"),
    "payee: empty": ({"payee": ""}, f"payee: {ASCII_ID}"),
    "payee: 65 characters": ({"payee": "b" * 65}, f"payee: {ASCII_ID}"),
    "payee: a number": ({"payee": 17}, f"payee: {ASCII_ID}"),
    "key: 15 characters": ({"key": "k" * 15}, f"key: {ASCII_ID}"),
    "key: 65 characters": ({"key": "k" * 65}, f"key: {ASCII_ID}"),
    "key: a colon": ({"key": "order-2026:000101"}, f"key: {ASCII_ID}"),
    "key: a number": ({"key": 1234567890123456}, f"key: {ASCII_ID}"),
    **{
        f"{name}: missing": ({name: MISSING}, f"{name}: missing")
        for name in ("key", "payer", "payee", "amount", "currency")
    },
    "an unknown field": ({"memo": "rent"}, "memo: unknown field; the fields are key, payer, payee"),
    "an unknown field with a line break": ({"me\nmo": "rent"}, "unknown field"),
    "an unknown field that controls a terminal": ({"\x1b[2Jmemo": "rent"}, "unknown field"),
    "300 KB": ({"memo": "x" * 300_000}, "memo: unknown field"),
}

NO_OBJECTS = {"null": "null", "a list": "[]", "a text": '"text"', "a number": "17"}
NOT_AN_OBJECT = (
    "request: must be a JSON object with the fields key, payer, payee, amount, currency, fee,"
    " deadline_seconds, payer_name, payee_name"
)


@pytest.fixture(scope="module")
def good(embedded: Embedded) -> dict[str, Any]:
    """A request that would settle if it were sent."""
    return {
        "key": new_key("never-settled"),
        "payer": new_account(embedded, "alice", "100.00"),
        "payee": new_account(embedded, "bob"),
        "amount": "48.20",
        "currency": "EUR",
        "fee": "0.48",
    }


def spoilt(good: dict[str, Any], change: dict[str, Any]) -> str:
    return json.dumps({name: value for name, value in (good | change).items() if value is not MISSING})


def express(embedded: Embedded, request: str) -> tuple[str, str]:
    """The error and the message with which the machine, or StartExecution itself, refuses a request."""
    try:
        execution = embedded.step_functions.start_sync_execution(
            stateMachineArn=embedded.stack.outputs["SettlementExpressArn"], input=request
        )
    except ClientError as refusal:
        return "refused by StartExecution", str(refusal)
    assert execution["status"] == "FAILED"
    return execution["error"], explain(execution["cause"])


@pytest.mark.parametrize(("change", "message"), BAD_FIELDS.values(), ids=BAD_FIELDS)
def test_the_machine_names_the_field_and_writes_nothing(
    embedded: Embedded, good: dict[str, Any], change: dict[str, Any], message: str
) -> None:
    before = embedded.rows()

    error, explained = express(embedded, spoilt(good, change))

    assert (error, message in explained) == ("InvalidRequest", True) or error.startswith("refused"), explained
    assert embedded.rows() == before


@pytest.mark.parametrize("request_text", NO_OBJECTS.values(), ids=NO_OBJECTS)
def test_the_machine_refuses_what_is_no_object_and_writes_nothing(
    embedded: Embedded, request_text: str
) -> None:
    before = embedded.rows()

    assert express(embedded, request_text) == ("InvalidRequest", NOT_AN_OBJECT)
    assert embedded.rows() == before


def test_every_field_at_fault_is_named_at_once(embedded: Embedded) -> None:
    _, explained = express(embedded, '{"key": 1, "payer": 2, "amount": 3.0, "currency": "EUR"}')

    assert [problem.partition(":")[0] for problem in explained.split("; ")] == [
        "amount",
        "key",
        "payee",
        "payer",
    ]


THROUGH_THE_COMMAND = {
    name: (BAD_FIELDS[name][0], BAD_FIELDS[name][1])
    for name in (
        "amount: a float",
        "currency: not accepted",
        "fee: as high as the amount",
        "key: 15 characters",
        "payee: missing",
        "an unknown field with a line break",
        "an unknown field that controls a terminal",
    )
}


@pytest.mark.parametrize(("change", "message"), THROUGH_THE_COMMAND.values(), ids=THROUGH_THE_COMMAND)
def test_the_command_says_it_in_one_line_that_a_terminal_may_show(
    embedded: Embedded, good: dict[str, Any], change: dict[str, Any], message: str
) -> None:
    before = embedded.rows()

    finished = embedded.settle("start", "-", stdin=spoilt(good, change))

    assert (finished.returncode, finished.stdout) == (2, "")
    assert message in finished.stderr
    assert len(finished.stderr.splitlines()) == 1
    assert finished.stderr.rstrip("\n").isprintable()
    assert embedded.rows() == before


REFUSED_UNSENT = {
    "null": ("null", NOT_AN_OBJECT),
    "a list": ("[]", NOT_AN_OBJECT),
    "NaN": ('{"amount": NaN}', "request: must be JSON"),
    "no JSON": ("nonsense", "request: must be JSON"),
    "300 KB": (json.dumps({"memo": "x" * 300_000}), "request: must be at most 262144 bytes"),
    "nothing": ("", "holds no request"),
    "too deep": ("[" * 100_000, "must be"),
}


@pytest.mark.parametrize(("request_text", "message"), REFUSED_UNSENT.values(), ids=REFUSED_UNSENT)
def test_the_command_refuses_what_is_no_request_in_one_line(
    embedded: Embedded, request_text: str, message: str
) -> None:
    before = embedded.rows()

    finished = embedded.settle("start", "-", stdin=request_text)

    assert (finished.returncode, finished.stdout) == (2, "")
    assert message in finished.stderr
    assert len(finished.stderr.splitlines()) == 1
    assert embedded.rows() == before


def test_standard_input_that_is_no_text_is_refused_in_one_line(embedded: Embedded) -> None:
    """In the C locale Python hands on bytes that are no text, and they fail later than elsewhere."""
    finished = embedded.settle_bytes("start", "-", stdin=b"\xff\xfe\x00", LC_ALL="C")

    assert (finished.returncode, finished.stdout) == (2, b"")
    assert len(finished.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fees:EUR", "--currency", "EUR"), "account: must match"),
        (("a b", "--currency", "EUR"), "account: must match"),
        (("", "--currency", "EUR"), "account: must match"),
        (("alice", "--currency", "XAU"), "currency: must be one of EUR, JPY, KWD, USD"),
        (("alice", "--currency", "EUR", "--deposit", "-1"), "deposit: must be a decimal string"),
        (
            ("alice", "--currency", "JPY", "--deposit", "1.5"),
            "deposit: must be a decimal string with no decimals",
        ),
    ],
)
def test_an_account_that_there_cannot_be_is_not_opened(
    embedded: Embedded, arguments: tuple[str, ...], message: str
) -> None:
    before = embedded.rows()

    finished = embedded.settle("account", "open", *arguments)

    assert (finished.returncode, finished.stdout) == (2, "")
    assert finished.stderr.startswith(f"settle: {message}")
    assert len(finished.stderr.splitlines()) == 1
    assert embedded.rows() == before
