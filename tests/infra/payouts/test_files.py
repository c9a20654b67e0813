"""A stage whose bank takes files has a bucket instead of secrets, webhook and circuit."""

import json
from dataclasses import replace
from typing import Any

import pytest
from cdk_nag import AwsSolutionsChecks, PCIDSS321Checks

from infra import payouts, payouts_config
from infra.config import STAGES, embedded, prod, settings_of
from infra.payouts_config import NOT_NAMED, Debtor
from infra.payruns import PayRunSettings
from infra.teardown import BUCKETS
from settlement.payouts import over_files
from settlement.payouts.iban import is_iban
from settlement.payouts.payout import is_holder
from tests.infra.payouts.stage import BY_FILES, FILES, ON, PAYOUTS
from tests.infra.payouts.test_settings import of_a_stage
from tests.infra.stack import allow, changed, changed_template, granted_in, linted, name, readable

BUCKET = "${PayoutsFiles.Arn}"
FINDINGS = {
    AwsSolutionsChecks: {
        "AwsSolutions-S1": "Who puts a file is in CloudTrail, if data events are on; versions keep each.",
    },
    PCIDSS321Checks: {
        "PCI.DSS.321-S3BucketLoggingEnabled": "As above.",
        "PCI.DSS.321-S3BucketReplicationEnabled": "The bank has a copy; the payout's row has its digest.",
        "PCI.DSS.321-S3DefaultEncryptionKMS": "The deliverer needs no key.",
    },
}
TEXTS = ("Ada", "", " Ada", "Ada\n", "a" * 70, "a" * 71, "Ö & <é>", None, 3)
IBANS = (
    *("NL91ABNA0417164300", "DE89370400440532013000", "NL92ABNA0417164300", "nl91ABNA0417164300"),
    *("NL91 ABNA 0417 1643 00", "NL00ABNA0417164300", "NL91ABNA0417164300\n", "", None, 3),
)


def resources(stage: str = "prod") -> dict[str, Any]:
    return changed(stage, **BY_FILES)


def of_follower(name: str) -> Any:
    return resources()["FollowPayouts"]["Properties"]["Environment"]["Variables"].get(name)


def test_the_files_bucket_is_private_encrypted_and_versioned() -> None:
    bucket = resources()["PayoutsFiles"]
    properties = bucket["Properties"]
    (rule,) = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]

    assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
    assert properties["VersioningConfiguration"] == {"Status": "Enabled"}
    assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
    assert "aws:SecureTransport" in str(resources()["PayoutsFilesPolicy"])
    assert "LifecycleConfiguration" not in properties
    assert bucket["DeletionPolicy"] == "RetainExceptOnCreate"


def test_only_follow_payouts_reaches_files_and_it_never_overwrites_one() -> None:
    found = {
        (name, one)
        for name in resources()
        if name.endswith("Role")
        for one in granted_in(resources(), name)
        if BUCKET in one.resource
    }
    objects = [f"{BUCKET}/payouts/*"]
    needed = {
        *allow("s3:PutObject", on=objects, only_if={"Null": {"s3:if-none-match": "false"}}),
        *allow("s3:GetObject", on=[*objects, f"{BUCKET}/answers/*"]),
        *allow("s3:ListBucket", on=[BUCKET]),
    }

    assert found == {("FollowPayoutsRole", one) for one in needed}
    assert (f"{over_files.PREFIX}*", f"{over_files.ANSWERS}*") == (payouts.FILES, payouts.ANSWERS)


@pytest.mark.parametrize(
    "on", [ON | {"pay_runs": PayRunSettings()}, BY_FILES], ids=["with pay runs", "by files"]
)
def test_teardown_empties_each_bucket_of_a_stage(on: dict[str, Any]) -> None:
    found = readable(changed_template("prod", **on))
    named = {one["Value"] for name, one in found["Outputs"].items() if name in BUCKETS}
    buckets = {name for name, one in found["Resources"].items() if one["Type"] == "AWS::S3::Bucket"}

    assert named == {f"${{{name(bucket)}}}" for bucket in buckets}


def test_each_webhook_of_strangers_has_a_concurrency_share() -> None:
    found = changed("prod", **ON)
    urls = [name.removesuffix("FunctionUrl") for name in found if name.endswith("FunctionUrl")]

    assert set(urls) == {"KycDecided", "BankEvents"}
    assert {found[one]["Properties"]["ReservedConcurrentExecutions"] for one in urls} == {20}


def test_a_file_based_bank_needs_no_secret_webhook_or_circuit() -> None:
    added = resources().keys() - changed("prod", **ON).keys()
    missing = changed("prod", **ON).keys() - resources().keys()

    assert added == {"PayoutsFiles", "PayoutsFilesPolicy"}
    assert missing >= {
        *("BankEvents", "BankEventsRole", "BankEventsFunctionUrl", "PayoutsCredentials", "PayoutsSigning"),
        *("PagerBankCircuitOpen", "PagerBankSecretUnreadable"),
        *("PagerBankEventsFailed", "PagerBankEventsRefused"),
    }
    assert all("Bank" in one or one.startswith("Payouts") for one in missing)
    assert "CIRCUIT" not in str(granted_in(resources(), "FollowPayoutsRole"))
    assert "CIRCUIT" in str(granted_in(changed("prod", **ON), "FollowPayoutsRole"))
    board = str(resources()["DashboardBoard"])
    assert not any(name in board for name in ("BankCircuit", "BankSecretUnreadable", "BankEvents"))


def test_outputs_name_files_bucket_instead_of_webhook_and_secrets() -> None:
    outputs = readable(changed_template("prod", **BY_FILES)["Outputs"])

    assert outputs["PayoutFilesBucket"] == {"Value": "${PayoutsFiles}"}
    assert not outputs.keys() & {"BankWebhookUrl", "BankCredentialsArn", "BankSigningArn"}
    assert "PayoutFilesBucket" not in changed_template("prod", **ON)["Outputs"]


def test_the_file_adapters_settings_are_only_in_follow_payouts_variable() -> None:
    told = json.loads(of_follower("PAYOUTS"))
    debtor = over_files.Debtor(**told["files"].pop("debtor"))

    assert (debtor.name, debtor.iban) == ("Market & Sons", "NL91ABNA0417164300")
    assert told == {
        "limits": {"payout": {"EUR": 500_000}, "day": {"EUR": 2_000_000}, "rest_seconds": 86_400},
        "accounts": ["NL91ABNA0417164300"],
        "files": {"bucket": "${PayoutsFiles}", "name": "bank"},
    }
    for function in ("ReservePayout", "ServePayouts", "TakeOrder"):
        variables = resources()[function]["Properties"]["Environment"]["Variables"]
        assert json.loads(variables["PAYOUTS"]).keys() == {"limits"}


@pytest.mark.parametrize("pack", FINDINGS)
def test_each_cdk_nag_finding_of_the_files_bucket_is_explained(pack: Any) -> None:
    found = linted("prod", **BY_FILES).findings[pack]

    assert {rule for rule, path in found if path.startswith("Payouts/")} == {*FINDINGS[pack]}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"accounts": ("DE02120300000000202051",)}, "accounts: must name the debtor's IBAN"),
        ({"url": "https://bank.example"}, "bank_url: must be left out with a debtor"),
        ({"window_seconds": 1}, "window_seconds: must be 0 with a debtor"),
        ({"refusals": ("account_closed",)}, "refusals: must be empty with a debtor"),
        ({"payout": {"USD": "1"}, "day": {"USD": "1"}}, "payout: must name EUR alone with a debtor"),
        (
            {"payout": {"EUR": "1", "USD": "1"}, "day": {"EUR": "1", "USD": "1"}},
            "payout: must name EUR alone with a debtor",
        ),
        ({"debtor": {"name": "Ada", "iban": "NL91ABNA0417164300"}}, "debtor: must be a Debtor, or None$"),
    ],
)
def test_settings_that_contradict_a_file_based_bank_are_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=f"^{told}"):
        replace(FILES, **changes)


@pytest.mark.parametrize("name", TEXTS, ids=ascii)
def test_a_debtors_name_is_checked_as_the_adapter_checks_it(name: Any) -> None:
    assert payouts_config._is_holder(name) == is_holder(name)
    if not is_holder(name):
        with pytest.raises(ValueError, match=r"^debtor: name must be printable text of 1 to 70 characters$"):
            Debtor(name=name, iban=IBANS[0])


@pytest.mark.parametrize("iban", IBANS, ids=ascii)
def test_a_debtors_iban_is_checked_as_the_adapter_checks_it(iban: Any) -> None:
    assert payouts_config._is_iban(iban) == is_iban(iban)
    if not is_iban(iban):
        with pytest.raises(ValueError, match=r"^debtor: iban must be an IBAN in capitals, without blanks$"):
            Debtor(name="Ada", iban=iban)


def test_settings_and_file_adapter_have_the_same_currency() -> None:
    assert payouts_config.FILES_CURRENCY == over_files.CURRENCY


def test_a_stage_with_a_debtor_needs_no_bank_address() -> None:
    assert of_a_stage(payouts=FILES).bank.is_reached


def test_an_app_must_name_the_banks_address_or_its_debtor() -> None:
    given: dict[str, Any] = {
        **{"stage": "shop", "currencies": ["EUR"], "kyc_url": "https://kyc.example"},
        **{"page_address": "oncall@example.com", "runbooks": "https://runbooks.example.com"},
    }
    nowhere = replace(PAYOUTS, url=NOT_NAMED)

    assert prod(**given, **BY_FILES).bank == FILES
    with pytest.raises(ValueError, match=r"^bank_url: name the bank's address; give PayoutSettings its url"):
        prod(**given, **BY_FILES | {"payouts": nowhere})


def test_a_stage_with_a_debtor_refuses_a_bank_url_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STAGES, "dev", replace(STAGES["dev"], **BY_FILES))
    given = {"stage": "dev", "kyc_url": "https://kyc.example"}

    assert settings_of(given).bank == FILES
    with pytest.raises(ValueError, match=r"^bank_url: must be left out with a debtor"):
        settings_of({**given, "bank_url": "https://bank.example"})


def test_the_embedded_aws_asks_the_simulated_bank_instead_of_files() -> None:
    place = {"python": "/usr/bin/python3", "kyc_url": "http://127.0.0.1:8081"}
    found = embedded(of_a_stage(payouts=FILES), **place, bank_url="http://127.0.0.1:9").bank

    assert (found.url, found.debtor, found.payout) == ("http://127.0.0.1:9", None, FILES.payout)
