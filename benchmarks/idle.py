"""The monthly price of an idle stage, from its template."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

_PRICED = {
    "AWS::KMS::Key": "kms_key_month",
    "AWS::SecretsManager::Secret": "secret_month",
    "AWS::CloudWatch::Dashboard": "dashboard_month",
}
ALARM = "alarm_metric_month"
"""The price of an alarm, which is paid for each metric that it reads."""


def counts(resources: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the number of items with a monthly price in a template, by the price's name."""
    found = Counter[str]()
    for resource in resources:
        if price := _PRICED.get(resource["Type"]):
            found[price] += 1
        elif resource["Type"] == "AWS::CloudWatch::Alarm":
            metrics = resource["Properties"].get("Metrics", [{"MetricStat": {}}])
            found[ALARM] += sum("MetricStat" in metric for metric in metrics)
    return dict(found)


def dollars(counted: Mapping[str, int], prices: Mapping[str, float]) -> float:
    """Return the dollars a month, without free tiers."""
    return sum(count * prices[name] for name, count in counted.items())
