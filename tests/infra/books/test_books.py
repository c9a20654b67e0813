import json
from typing import Any

import pytest

from benchmarks import cost, idle
from handlers.books import project_entries
from infra.books import DATABASE, PROJECTOR
from settlement.books import data_api
from tests.infra.observed import observed
from tests.infra.stack import (
    Permission,
    allow,
    changed,
    changed_template,
    each_stage_on_aws,
    granted_in,
    readable,
    template,
)
from tests.infra.test_tags import UNTAGGED, tags
from tests.world.templates import PROJECT

CLUSTER, SECRET, KEY = "${BooksCluster.DBClusterArn}", "${BooksProjector}", "${BooksKey.Arn}"
LEAST_UNITS_AWAKE = 0.5


def resources(stage: str = "prod", every: int = 1) -> dict[str, Any]:
    return changed(stage, books_every_minutes=every)


def properties(name: str, **of: Any) -> Any:
    return resources(**of)[name]["Properties"]


@each_stage_on_aws
def test_the_cluster_pauses_and_only_the_data_api_reaches_it(stage: str) -> None:
    cluster, group = properties("BooksCluster", stage=stage), properties("BooksGroup", stage=stage)

    assert cluster["ServerlessV2ScalingConfiguration"]["MinCapacity"] == 0
    assert cluster["ServerlessV2ScalingConfiguration"]["SecondsUntilAutoPause"] == 300
    assert (cluster["EnableHttpEndpoint"], cluster["DatabaseName"]) == (True, DATABASE)
    assert properties("BooksInstance", stage=stage)["PubliclyAccessible"] is False
    assert "SecurityGroupIngress" not in group
    assert [one["CidrIp"] for one in group["SecurityGroupEgress"]] == ["127.0.0.1/32"]
    kinds = {one["Type"] for one in resources(stage).values() if one["Type"].startswith("AWS::EC2::")}
    assert kinds == {"AWS::EC2::VPC", "AWS::EC2::Subnet", "AWS::EC2::SecurityGroup"}
    assert "VpcConfig" not in properties("ProjectEntries", stage=stage)


@each_stage_on_aws
def test_cluster_and_secrets_share_a_key_and_survive_stack_deletion(stage: str) -> None:
    cluster = properties("BooksCluster", stage=stage)

    assert (cluster["StorageEncrypted"], cluster["KmsKeyId"]) == (True, KEY)
    assert {properties(f"Books{one}", stage=stage)["KmsKeyId"] for one in ("Owner", "Projector")} == {KEY}
    assert properties("BooksKey", stage=stage)["EnableKeyRotation"] is True
    users = {
        one: json.loads(
            properties(f"Books{one}", stage=stage)["GenerateSecretString"]["SecretStringTemplate"]
        )["username"]
        for one in ("Owner", "Projector")
    }
    assert users["Projector"] == PROJECTOR != users["Owner"]
    assert "BooksOwner" in cluster["MasterUserPassword"]
    assert (cluster["DeletionProtection"], cluster["BackupRetentionPeriod"]) == (True, 35)
    kept = {
        name: (one["DeletionPolicy"], one["UpdateReplacePolicy"])
        for name, one in resources(stage).items()
        if name.startswith("Books") and one["Type"] != "AWS::Scheduler::Schedule"
    }
    assert set(kept.values()) == {("RetainExceptOnCreate", "Retain")}
    assert len(kept) == 10


def test_a_personal_stages_books_are_deleted_and_finance_is_subscribed() -> None:
    address = "https://finance.example.com/late"
    personal = {"stage": "my-ada", "keeps_data": False, "books_every_minutes": 1}
    found = changed("dev", **personal, finance_address=address)
    mine = {name: one for name, one in found.items() if name.startswith("Books")}
    (subscription,) = (one["Properties"] for one in found.values() if one["Type"] == "AWS::SNS::Subscription")

    assert {one.get("DeletionPolicy") for one in mine.values()} <= {"Delete", None}
    assert mine["BooksCluster"]["Properties"]["DeletionProtection"] is False
    assert (subscription["Endpoint"], subscription["TopicArn"]) == (address, "${PagerFinanceTopic}")


def needed() -> set[Permission]:
    """Return the permissions for the function's calls, and for services' calls on its behalf."""
    actions = {f"{call.service}:{call.operation}" for call in observed() if call.function == "ProjectEntries"}
    assert {one for one in actions if not one.startswith("rds-data:")} == {
        *("s3:ListObjectVersions", "s3:GetObject")
    }
    via_s3, via_secrets = (
        {"StringEquals": {"kms:ViaService": f"{one}.${{AWS::Region}}.amazonaws.com"}}
        for one in ("s3", "secretsmanager")
    )
    of_journal = {"StringEquals": {"s3:prefix": "journal/"}}
    return {
        *allow(*(one for one in actions if one.startswith("rds-data:")), on=[CLUSTER]),
        *allow("secretsmanager:GetSecretValue", on=[SECRET]),
        *allow("kms:Decrypt", on=[KEY], only_if=via_secrets),
        *allow("s3:ListBucketVersions", on=["${JournalBucket.Arn}"], only_if=of_journal),
        *allow("s3:GetObjectVersion", on=["${JournalBucket.Arn}/journal/*"]),
        *allow("kms:Decrypt", on=["${JournalKey.Arn}"], only_if=via_s3),
        *allow("logs:CreateLogStream", "logs:PutLogEvents", on=["${ProjectEntriesLogs.Arn}"]),
    }


@each_stage_on_aws
def test_the_projecting_function_has_only_the_permissions_it_needs(stage: str) -> None:
    assert granted_in(resources(stage), "ProjectEntriesRole") == needed()
    assert "ManagedPolicyArns" not in properties("ProjectEntriesRole", stage=stage)


@each_stage_on_aws
@pytest.mark.parametrize("every", [1, 30])
def test_the_books_alarm_waits_longer_than_the_projectors_schedule(stage: str, every: int) -> None:
    schedule = properties("BooksRounds", stage=stage, every=every)
    config = properties("ProjectEntriesEventInvokeConfig", stage=stage, every=every)
    alarm = properties("PagerBooksBehind", stage=stage, every=every)

    assert schedule["ScheduleExpression"] == f"rate({every} minute{'s' if every > 1 else ''})"
    assert schedule["Target"]["Arn"] == "${ProjectEntries.Arn}"
    assert schedule["Target"]["RetryPolicy"]["MaximumRetryAttempts"] == config["MaximumRetryAttempts"] == 0
    assert (alarm["Period"], alarm["Threshold"]) == (max(300, every * 60), every * 60 + 900)


@each_stage_on_aws
def test_the_projecting_function_knows_its_cluster_secret_and_journal(stage: str) -> None:
    function = properties("ProjectEntries", stage=stage)
    given = function["Environment"]["Variables"]

    assert (given["BOOKS_CLUSTER"], given["BOOKS_SECRET"]) == (CLUSTER, SECRET)
    assert given["JOURNAL_BUCKET"] == "${JournalBucket}"
    assert "ROW_KEYS" not in given
    assert function["Handler"] == "handlers.books.project_entries.handler"


def test_a_round_has_time_for_database_resume_and_last_statement() -> None:
    """A database resumes in 15 s, or more after a day's pause. A Data API statement takes 45 s at most."""
    seconds = properties("ProjectEntries")["Timeout"]

    assert seconds - project_entries.RESERVED_MS // 1_000 >= 60
    assert project_entries.RESERVED_MS // 1_000 > data_api.CLIENT_CONFIG.read_timeout > 45


@each_stage_on_aws
def test_finance_has_its_own_encrypted_and_watched_topic(stage: str) -> None:
    topic, others = "PagerFinanceTopic", properties("PagerMorningTopicPolicy", stage=stage)
    watched = [
        one["MetricStat"]["Metric"]["Dimensions"][0]["Value"]
        for one in properties("PagerDeliveryFailed", stage=stage)["Metrics"]
        if "MetricStat" in one
    ]

    assert properties(topic, stage=stage)["KmsMasterKeyId"] == "${PagerKey.Arn}"
    policy = json.dumps(properties(f"{topic}Policy", stage=stage))
    assert policy == json.dumps(others).replace("PagerMorningTopic", topic)
    assert f"${{{topic}.TopicName}}" in watched


@each_stage_on_aws
def test_the_outputs_name_the_books_cluster_secrets_and_finance_topic(stage: str) -> None:
    whole = changed_template(stage, books_every_minutes=1)
    outputs = {name: readable(one["Value"]) for name, one in whole["Outputs"].items()}

    assert outputs["BooksClusterArn"] == CLUSTER
    assert (outputs["BooksOwnerArn"], outputs["BooksProjectorArn"]) == ("${BooksOwner}", SECRET)
    assert outputs["FinanceTopicArn"] == "${PagerFinanceTopic}"


@each_stage_on_aws
def test_each_resource_of_the_books_has_the_tags(stage: str) -> None:
    for name, resource in resources(stage).items():
        expected = {} if resource["Type"] in UNTAGGED else {"project": "settlement", "stage": stage}
        assert tags(resource) == expected, name


@each_stage_on_aws
def test_the_costs_page_states_what_the_books_add_when_idle(stage: str) -> None:
    prices = cost.load(PROJECT / "benchmarks/prices.toml").prices
    told = " ".join((PROJECT / "docs/reference/price.md").read_text().split())
    with_books, without = (idle.counts(one.values()) for one in (resources(stage), template(stage)))
    added = {name: count - without[name] for name, count in with_books.items()}

    assert added == {"kms_key_month": 1, "secret_month": 2, idle.ALARM: 4, "dashboard_month": 0}
    assert f"a key, two secrets and four alarms, {idle.dollars(added, prices):.2f} dollars" in told
    awake = LEAST_UNITS_AWAKE * prices["aurora_unit_hour"]
    assert f"which is {awake:.2f} dollars an hour and {awake * 730:.0f} a month" in told
    assert f"with ten a day {awake * 10 * 30 * 6 / 60:.0f} dollars a month" in told
    assert f"storage is {prices['aurora_gb_month']:.1f} dollars for each GB" in told
