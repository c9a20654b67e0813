from dataclasses import replace

from aws_cdk.assertions import Template

from infra import retention
from infra.config import STAGES
from infra.settlement_stack import SettlementStack
from infra.table import EXPIRES
from settlement.core.ledger import keys
from settlement.retention import expiry
from tests.infra.stack import allow, each_stage, only, permissions, resources
from tests.infra.writes import ALL
from tests.world.templates import app

PUT = [write.parameters["Item"] for write in ALL if write.action == "Put"]
UNITS_OF_A_RESUMED_SETTLEMENT = 20 + 3
"""Write units of a settlement's steps and of its takeover: see docs/reference/costs.md."""

ACCOUNT_ROOT = "arn:${AWS::Partition}:iam::${AWS::AccountId}:root"


def schema(partition: str, sort: str) -> list[dict[str, str]]:
    return [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]


@each_stage
def test_keys_are_strings_and_the_index_has_only_keys(stage: str) -> None:
    """Otherwise a status change would also rewrite the index."""
    table = only(stage, "DynamoDB::Table")
    (index,) = table["GlobalSecondaryIndexes"]
    types = {one["AttributeName"]: one["AttributeType"] for one in table["AttributeDefinitions"]}

    assert table["KeySchema"] == schema("pk", "sk")
    assert (index["IndexName"], index["KeySchema"]) == (keys.INDEX, schema("gsi1pk", "gsi1sk"))
    assert index["Projection"] == {"ProjectionType": "KEYS_ONLY"}
    assert types == dict.fromkeys(("pk", "sk", "gsi1pk", "gsi1sk"), "S")


def test_the_index_lists_settlements_and_orders_but_no_entries() -> None:
    """An indexed entry or payment verdict would be written, and paid for, twice."""
    listed = [row for row in PUT if "gsi1pk" in row]
    # A run's orders are found by its row, which is listed.
    of_rooms = ("DESTINATION", "PAYOUT_CASE", "PAYRUN_DECISION", "PAYRUN")
    orders = [row for row in PUT if "by" in row and keys.subject(row)[0] not in of_rooms]
    of_orders = [row for row in listed if keys.subject(row)[0] not in ("SETTLEMENT", *of_rooms)]

    of_payouts = {"DESTINATION", "PAYOUT_CASE", "PAYRUN"}
    assert {keys.subject(row)[0] for row in listed} == {"SETTLEMENT", "EVIDENCE", "ORDER", *of_payouts}
    assert of_orders == orders
    assert all(keys.orders_index(row["posted_at"]).items() <= row.items() for row in orders)
    of_payouts_orders = [row for row in listed if keys.subject(row)[0] in ("DESTINATION", "PAYOUT_CASE")]
    times = ("added_at", "confirmed_at", "posted_at")
    for row in of_payouts_orders:
        (at,) = (row[name] for name in times if name in row)
        assert keys.payout_orders_index(at).items() <= row.items()
    assert len(listed) < len(PUT)


@each_stage
def test_rows_expire_only_if_the_stage_has_a_retention(stage: str) -> None:
    """Our stages have no retention, because each operator chooses it."""
    assert STAGES[stage].retention_days is None
    assert "TimeToLiveSpecification" not in only(stage, "DynamoDB::Table")


def test_with_a_retention_the_table_expires_rows_by_ttl_attribute() -> None:
    settings = replace(STAGES["prod"], retention_days=400)
    stack = SettlementStack(app(), settings=settings, rooms=[retention.ROOM])
    template = Template.from_stack(stack).to_json()["Resources"]
    (table,) = (one for one in template.values() if one["Type"] == "AWS::DynamoDB::Table")

    assert table["Properties"]["TimeToLiveSpecification"] == {
        "AttributeName": expiry.EXPIRES,
        "Enabled": True,
    }
    assert EXPIRES == expiry.EXPIRES


@each_stage
def test_the_table_streams_restores_to_any_second_and_resists_deletion(stage: str) -> None:
    table = only(stage, "DynamoDB::Table")

    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert table["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["DeletionProtectionEnabled"] is STAGES[stage].keeps_data


@each_stage
def test_the_warm_throughput_suffices_for_recoverys_pace(stage: str) -> None:
    """The index has its own partitions. A throttled index throttles the table."""
    table, settings = only(stage, "DynamoDB::Table"), STAGES[stage]
    (index,) = table["GlobalSecondaryIndexes"]
    units = settings.warm_write_units
    warm = None if units is None else {"WriteUnitsPerSecond": units}

    assert (table.get("WarmThroughput"), index.get("WarmThroughput")) == (warm, warm)
    assert (units is not None) == (stage == "prod"), "only prod pays for it"
    assert units is None or units >= settings.recovery_starts_per_second * UNITS_OF_A_RESUMED_SETTLEMENT


@each_stage
def test_rows_are_encrypted_with_our_own_rotating_key(stage: str) -> None:
    """The key's policy admits only the account. Each role's own policy allows its use."""
    key = resources(stage, "KMS::Key")["LedgerKey"]["Properties"]
    encryption = {"KMSMasterKeyId": "${LedgerKey.Arn}", "SSEEnabled": True, "SSEType": "KMS"}

    assert only(stage, "DynamoDB::Table")["SSESpecification"] == encryption
    assert key["EnableKeyRotation"] is True
    assert set(permissions(key["KeyPolicy"])) == allow("kms:*", on=["*"], by=ACCOUNT_ROOT)
