from typing import Any

import pytest
from botocore.exceptions import ClientError, WaiterError

from infra.config import STAGES, is_personal, settings_of
from infra.teardown import Refused, main, teardown
from tests.infra.stack import KEPT, each_stage, resources
from tests.world import templates

STAGE = "my-ada"
STACK_ID = "arn:aws:cloudformation:eu-west-1:123456789012:stack/settlement-my-ada/1"
PAGES = [
    {"Versions": [{"Key": "a", "VersionId": "1"}], "DeleteMarkers": [{"Key": "a", "VersionId": "2"}]},
    {"Versions": [{"Key": "b", "VersionId": "3"}]},
]
"""A bucket's versions, by page: an object with a delete marker, and another object."""

LOCKED = "journal"
FULL = {LOCKED: PAGES, "statements": PAGES}


class Aws:
    """CloudFormation and S3, with a stack that can be deleted once its buckets are empty."""

    def __init__(self, *, is_protected: bool = False, late_objects: int = 0, refuses: str = "") -> None:
        self.stack: dict[str, Any] | None = {
            "StackId": STACK_ID,
            "EnableTerminationProtection": is_protected,
            "Outputs": [
                {"OutputKey": "TableName", "OutputValue": "table"},
                {"OutputKey": "StatementsBucket", "OutputValue": "statements"},
                {"OutputKey": "JournalBucket", "OutputValue": LOCKED},
            ],
        }
        self.late_objects = late_objects
        self.refuses = refuses
        self.pages: dict[str, list[dict[str, Any]]] = dict(FULL)
        self.deletions = 0

    def describe_stacks(self, **call: Any) -> Any:
        assert call == {"StackName": f"settlement-{STAGE}"}
        if self.stack is None:
            error = {"Code": "ValidationError", "Message": f"Stack with id settlement-{STAGE} does not exist"}
            raise ClientError({"Error": error}, "DescribeStacks")
        return {"Stacks": [self.stack]}

    def delete_stack(self, **call: Any) -> None:
        assert call == {"StackName": STACK_ID}
        self.deletions += 1
        if self.late_objects:
            self.late_objects -= 1
            self.pages[LOCKED] = [{"Versions": [{"Key": "late", "VersionId": "9"}]}]
        elif not any(self.pages.values()):
            self.stack = None

    def get_waiter(self, name: str) -> Any:
        assert name == "stack_delete_complete"
        return self

    def wait(self, **call: Any) -> None:
        assert call["StackName"] == STACK_ID
        if self.stack is not None:
            raise WaiterError("StackDeleteComplete", "DELETE_FAILED", {})

    def get_paginator(self, name: str) -> Any:
        assert name == "list_object_versions"
        return self

    def paginate(self, **call: Any) -> Any:
        return [*self.pages[call["Bucket"]], {}]

    def delete_objects(self, **call: Any) -> Any:
        bucket = call["Bucket"]
        assert call.get("BypassGovernanceRetention") is (True if bucket == LOCKED else None)
        objects = call["Delete"]["Objects"]
        if self.refuses:
            return {"Errors": [{"Code": self.refuses, **one} for one in objects]}
        self.pages[bucket] = [
            page for page in self.pages[bucket] if [one for kind in page.values() for one in kind] != objects
        ]
        return {}


def torn_down(aws: Aws, stage: str = STAGE) -> bool:
    return teardown(stage, lambda _: aws)


@pytest.mark.parametrize("late_objects", [0, 1])
def test_teardown_empties_the_buckets_until_the_stack_is_deleted(late_objects: int) -> None:
    aws = Aws(late_objects=late_objects)

    assert torn_down(aws) is True
    assert (aws.stack, aws.deletions) == (None, 1 + late_objects)
    assert not any(aws.pages.values())


def test_teardown_without_a_stack_does_nothing() -> None:
    aws = Aws()
    torn_down(aws)

    assert torn_down(aws) is False
    assert aws.deletions == 1


@pytest.mark.parametrize("stage", [*STAGES, "", "my-", "my-Ada", "my-a-b", "prod my-ada", "my-ada\n"])
def test_teardown_refuses_every_stage_that_is_not_personal(stage: str) -> None:
    aws = Aws()

    with pytest.raises(Refused, match="stage: "):
        torn_down(aws, stage)

    assert (aws.deletions, aws.pages) == (0, FULL)


@pytest.mark.parametrize(
    ("aws", "told", "deletions"),
    [
        (Aws(is_protected=True), "protected from deletion", 0),
        (Aws(refuses="AccessDenied"), "journal: 2 objects stay, the first by AccessDenied", 0),
        (Aws(late_objects=9), "not deleted after 3 tries", 3),
    ],
)
def test_teardown_reports_what_it_could_not_delete(aws: Aws, told: str, deletions: int) -> None:
    with pytest.raises(Refused, match=told):
        torn_down(aws)

    assert aws.deletions == deletions
    assert deletions or aws.pages == FULL


@pytest.mark.parametrize(
    ("stage", "told"), [("prod", "stage: prod is no personal one"), (STAGE, "You must specify a region")]
)
def test_a_refused_teardown_prints_one_line_and_exits_1(
    stage: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`prod` is refused before any AWS call, so no region is needed."""
    for variable in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")

    assert main(["--stage", stage]) == 1
    assert told in capsys.readouterr().err


def test_no_resource_of_a_personal_stage_survives_its_stack() -> None:
    """A retained resource would have no owner and block its name.

    The retained versions go with their functions.
    """
    found = templates.template(STAGE)["Resources"]
    kept = {one["Type"] for one in found.values() if "Retain" in str(one.get("DeletionPolicy"))}
    (table,) = (one for one in found.values() if one["Type"] == "AWS::DynamoDB::Table")

    assert kept == {"AWS::Lambda::Version"}
    assert "DeleteObjectVersion" not in str(found)
    assert table["Properties"]["DeletionProtectionEnabled"] is False


@each_stage
@pytest.mark.parametrize(
    "kind",
    [
        *("DynamoDB::Table", "S3::Bucket", "SQS::Queue", "Logs::LogGroup"),
        *("KMS::Key", "SecretsManager::Secret"),
    ],
)
def test_with_real_money_data_and_keys_outlive_the_stack(stage: str, kind: str) -> None:
    """Data without its key is lost. An alert in a queue has not reached a person yet."""
    found = resources(stage, kind)

    assert found
    assert {name for name, one in found.items() if not KEPT[stage].items() <= one.items()} == set()


def test_a_personal_stage_has_the_settings_of_dev() -> None:
    settings = settings_of({"stage": STAGE, "kyc_url": "https://kyc.example.com"})
    dev = vars(STAGES["dev"])
    changed = {name for name, value in vars(settings).items() if value != dev[name]} - {"kyc"}

    assert settings.stack_name == "settlement-my-ada"
    assert changed == {"stage", "keeps_data", "journal_lock_days", "log_retention"}
    assert (settings.journal_lock, settings.journal_lock_days) == ("governance", 1)
    assert not any(is_personal(stage) for stage in STAGES)
