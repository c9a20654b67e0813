"""The one table: its keys and index, its backups, and its encryption."""

from typing import Any

import pytest

from infra.config import STAGES
from settlement.ledger import forward, keys
from settlement.model.settlement import Settlement
from settlement.model.stage_config import StageConfig
from settlement.policy import steps
from tests.conftest import NOW
from tests.infra.iam import attribute
from tests.infra.sent import all_writes, assigned, parking, writes
from tests.support import templates

each_stage = pytest.mark.parametrize("stage", STAGES)
each_lasting_stage = pytest.mark.parametrize("stage", ["dev", "prod"])


def table(stage: str) -> Any:
    (resource,) = templates.resources("AWS::DynamoDB::Table", stage).values()
    return resource


def key(stage: str) -> Any:
    encryption = table(stage)["Properties"]["SSESpecification"]
    return templates.resources("AWS::KMS::Key", stage)[attribute(encryption["KMSMasterKeyId"])]


def schema(partition: str, sort: str) -> list[dict[str, str]]:
    return [
        {"AttributeName": partition, "KeyType": "HASH"},
        {"AttributeName": sort, "KeyType": "RANGE"},
    ]


@each_stage
def test_the_keys_are_texts(stage: str) -> None:
    properties = table(stage)["Properties"]

    assert properties["KeySchema"] == schema("pk", "sk")
    assert {one["AttributeName"]: one["AttributeType"] for one in properties["AttributeDefinitions"]} == {
        "pk": "S",
        "sk": "S",
        "gsi1pk": "S",
        "gsi1sk": "S",
    }


@each_stage
def test_the_index_carries_immutable_attributes_only(stage: str) -> None:
    """A change of status would otherwise rewrite the index, too."""
    (index,) = table(stage)["Properties"]["GlobalSecondaryIndexes"]

    assert index["IndexName"] == "gsi1"
    assert index["KeySchema"] == schema("gsi1pk", "gsi1sk")
    assert index["Projection"]["ProjectionType"] == "INCLUDE"
    assert sorted(index["Projection"]["NonKeyAttributes"]) == ["amount", "currency", "side", "step"]


def test_no_update_of_a_step_changes_an_attribute_of_the_index(
    settlement: Settlement, config: StageConfig
) -> None:
    (index,) = table("prod")["Properties"]["GlobalSecondaryIndexes"]
    updates = [write for write in all_writes(settlement, config) if write.action == "Update"]

    assert updates
    for update in updates:
        assert not set(index["Projection"]["NonKeyAttributes"]) & assigned(update), update.parameters


@pytest.mark.parametrize("state", ["HoldFunds", "VerifyKyc", "ReleaseFunds", "RefundFee", "ReclaimFunds"])
def test_a_step_that_finishes_nothing_leaves_the_index_alone(
    settlement: Settlement, config: StageConfig, state: str
) -> None:
    """It is written when a settlement is claimed, in review, finished, in LIMBO or resolved."""
    parked = parking(settlement).parameters
    updates = [write for write in writes(settlement, config)[state] if write.action == "Update"]

    assert updates
    for update in updates:
        if update.parameters != parked:
            assert not {"gsi1pk", "gsi1sk"} & assigned(update), update.parameters


def test_a_review_moves_a_settlement_in_the_index_to_where_the_review_ends(settlement: Settlement) -> None:
    """Otherwise recovery would find it each minute until then."""
    values = parking(settlement).parameters["ExpressionAttributeValues"]

    assert {"gsi1pk", "gsi1sk", "deadline_at"} <= assigned(parking(settlement))
    assert values[":gsi1sk"] == values[":until"]
    assert values[":gsi1pk"] == keys.in_flight_index(settlement.key, "")["gsi1pk"]


def test_every_row_has_the_tables_keys(settlement: Settlement, config: StageConfig) -> None:
    claimed = forward.claim(settlement, "owner", NOW, config).parameters["Item"]
    held = steps.hold(settlement, NOW).entry.parameters["Item"]

    for row in (claimed, held, {**keys.account("alice"), "gsi1pk": "", "gsi1sk": ""}):
        assert {
            one["AttributeName"] for one in table("prod")["Properties"]["AttributeDefinitions"]
        } <= row.keys()


@each_stage
def test_no_row_expires(stage: str) -> None:
    """A dropped settlement would be claimed again by a late retry, and paid twice."""
    assert "TimeToLiveSpecification" not in table(stage)["Properties"]


@each_stage
def test_the_table_can_be_restored_to_any_second(stage: str) -> None:
    recovery = table(stage)["Properties"]["PointInTimeRecoverySpecification"]

    assert recovery["PointInTimeRecoveryEnabled"] is True


@each_stage
def test_every_change_is_streamed_with_the_old_image(stage: str) -> None:
    assert table(stage)["Properties"]["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}


@each_stage
def test_the_table_is_paid_by_request(stage: str) -> None:
    properties = table(stage)["Properties"]

    assert properties["BillingMode"] == "PAY_PER_REQUEST"
    assert "ProvisionedThroughput" not in properties


@each_stage
def test_rows_are_encrypted_with_a_key_of_our_own_that_rotates(stage: str) -> None:
    encryption = table(stage)["Properties"]["SSESpecification"]

    assert encryption["SSEEnabled"] is True
    assert encryption["SSEType"] == "KMS"
    assert key(stage)["Properties"]["EnableKeyRotation"] is True


@each_stage
def test_only_the_account_itself_governs_the_key(stage: str) -> None:
    (statement,) = key(stage)["Properties"]["KeyPolicy"]["Statement"]
    principal = statement["Principal"]

    assert principal.keys() == {"AWS"}
    assert principal["AWS"]["Fn::Join"][1][-2:] == [{"Ref": "AWS::AccountId"}, ":root"]


@each_lasting_stage
def test_where_money_is_real_the_table_and_its_key_outlive_the_stack(stage: str) -> None:
    """A table without its key is as lost as a deleted one."""
    assert table(stage)["Properties"]["DeletionProtectionEnabled"] is True
    for resource in (table(stage), key(stage)):
        assert resource["DeletionPolicy"] == "Retain"
        assert resource["UpdateReplacePolicy"] == "Retain"


def test_the_embedded_stage_leaves_nothing_behind() -> None:
    assert table("local")["Properties"]["DeletionProtectionEnabled"] is False
    for resource in (table("local"), key("local")):
        assert resource["DeletionPolicy"] == "Delete"
