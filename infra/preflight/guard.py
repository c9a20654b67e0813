"""The guard before an update: no table, key or journal is lost, replaced or unprotected.

The guard refuses each change outside IN_PLACE, even a harmless one. A person then decides.
"""

from collections.abc import Iterator, Mapping
from typing import Any

IN_PLACE: Mapping[str, frozenset[str]] = {
    "AWS::DynamoDB::Table": frozenset(
        (
            *("AttributeDefinitions", "ContributorInsightsSpecification", "DeletionProtectionEnabled"),
            *("GlobalSecondaryIndexes", "OnDemandThroughput", "PointInTimeRecoverySpecification"),
            *("ResourcePolicy", "TableClass", "Tags", "TimeToLiveSpecification", "WarmThroughput"),
        )
    ),
    "AWS::KMS::Key": frozenset(
        (
            "Description",
            "EnableKeyRotation",
            "KeyPolicy",
            "PendingWindowInDays",
            "RotationPeriodInDays",
            "Tags",
        )
    ),
    "AWS::S3::Bucket": frozenset(("Tags",)),
    "AWS::SecretsManager::Secret": frozenset(("Description", "Tags")),
}
"""Types that hold money or evidence. The properties are those that CloudFormation updates in place."""

_POLICIES = ("DeletionPolicy", "UpdateReplacePolicy")
_RECOVERY, _RECOVERY_DAYS = "PointInTimeRecoverySpecification", 35

Template = Mapping[str, Any]


def faults(deployed: Template, new: Template) -> Iterator[str]:
    """Yield the forbidden effects of an update on guarded resources."""
    resources = new.get("Resources", {})
    for name, before in deployed.get("Resources", {}).items():
        if before["Type"] not in IN_PLACE:
            continue
        after = resources.get(name)
        if after is None:
            yield f"{name}: is removed, or has another logical id"
        elif after["Type"] != before["Type"]:
            yield f"{name}: is replaced by a {after['Type']}"
        else:
            yield from _changed(name, before, after)


def _changed(name: str, before: Template, after: Template) -> Iterator[str]:
    was, now = before.get("Properties", {}), after.get("Properties", {})
    for field in sorted(was.keys() | now.keys()):
        if was.get(field) != now.get(field) and field not in IN_PLACE[before["Type"]]:
            yield f"{name}.{field}: changes, which may replace it"
    yield from _unprotected(name, before, after)
    kept = {one["IndexName"] for one in now.get("GlobalSecondaryIndexes", ())}
    for index in was.get("GlobalSecondaryIndexes", ()):
        if index["IndexName"] not in kept:
            yield f"{name}.GlobalSecondaryIndexes: {index['IndexName']} is removed"
    for index in now.get("GlobalSecondaryIndexes", ()):
        for old in was.get("GlobalSecondaryIndexes", ()):
            same = old["IndexName"] == index["IndexName"]
            if same and any(old[part] != index[part] for part in ("KeySchema", "Projection")):
                yield f"{name}.GlobalSecondaryIndexes: {index['IndexName']} is made anew"


def _unprotected(name: str, before: Template, after: Template) -> Iterator[str]:
    was, now = before.get("Properties", {}), after.get("Properties", {})
    if before.get("Condition") != after.get("Condition"):
        yield f"{name}.Condition: changes, which may remove it"
    for policy in _POLICIES:
        if before.get(policy) != after.get(policy) and _keeps(before.get(policy)):
            yield f"{name}.{policy}: was {before[policy]}, and becomes {after.get(policy, 'Delete')}"
    for field in ("DeletionProtectionEnabled", _RECOVERY, "EnableKeyRotation"):
        if _is_on(was.get(field)) and not _is_on(now.get(field)):
            yield f"{name}.{field}: is switched off"
    days, left = _days(was.get(_RECOVERY)), _days(now.get(_RECOVERY))
    if 0 < left < days:
        yield f"{name}.{_RECOVERY}: reaches back {left} days, and not {days}"


def _keeps(policy: str | None) -> bool:
    return policy in ("Retain", "RetainExceptOnCreate", "Snapshot")


def _is_on(value: Any) -> bool:
    return value.get("PointInTimeRecoveryEnabled") is True if isinstance(value, dict) else value is True


def _days(recovery: Any) -> int:
    """Return how many days point-in-time recovery reaches back. Default: 35. Off: 0."""
    return int(recovery.get("RecoveryPeriodInDays", _RECOVERY_DAYS)) if _is_on(recovery) else 0
