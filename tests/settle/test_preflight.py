import json

import boto3
import pytest

from settle.exit_codes import Exit
from settle.local import preflight
from tests.settle.conftest import Command

FINE = {"check": "stack", "verdict": "fine", "found": "settlement-prod is not deployed yet", "do": ""}
LACKING = {
    "check": "bootstrap",
    "verdict": "lacking",
    "found": "CDK is not there",
    "do": "run `cdk bootstrap`",
}
UNKNOWN = LACKING | {"verdict": "unknown"}


@pytest.mark.parametrize(
    ("found", "code"),
    [([FINE], Exit.FINE), ([FINE, LACKING], Exit.FAILED), ([UNKNOWN, FINE], Exit.FAILED)],
)
def test_it_prints_checks_with_advice_and_fails_unless_all_fine(
    settle: Command, monkeypatch: pytest.MonkeyPatch, found: list[dict[str, str]], code: Exit
) -> None:
    monkeypatch.setattr(preflight, "findings", lambda stage, context: found)
    ended, out, _ = settle("preflight", "--stage", "prod")
    _, printed, _ = settle("preflight", "--stage", "prod", "--json")

    assert ended == code
    assert ("bootstrap: run `cdk bootstrap`" in out) == (code != Exit.FINE)
    assert "settlement-prod is not deployed yet" in out
    assert json.loads(printed) == found


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--stage", "production"), "stage: must be one of local, dev, prod"),
        (("--stage", "local", "-c", "kyc_url=http://127.0.0.1"), "stage: local runs on the embedded AWS"),
        (("--stage", "dev"), "kyc_url: name the KYC provider's address"),
        (("--stage", "dev", "-c", "kyc_url"), "context: must be NAME=VALUE"),
        (("--stage", "dev", "-c", "colour=red"), "context: has no colour; the names are stage, kyc_url"),
        (("--stage", "prod", "-c", "kyc_url=https://k.example.com"), "page_address: name the address"),
        (("--stage", "dev", "-c", "kyc_url=https://k.example.com"), "region: name one"),
    ],
)
def test_what_is_wrong_is_told_before_any_call(
    settle: Command, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], told: str
) -> None:
    class Nowhere:
        def __init__(self, region_name: None = None) -> None:
            self.region_name = region_name

    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.setattr(boto3, "Session", Nowhere)
    code, _, err = settle("preflight", *arguments)

    assert (code, told in err) == (Exit.USAGE, True), err
