import pytest

from benchmarks import cost, idle
from tests.infra.stack import each_stage_on_aws, template
from tests.world.templates import PROJECT

PRICES = cost.load(PROJECT / "benchmarks/prices.toml").prices
PAGE = (PROJECT / "docs/reference/costs.md").read_text()


@each_stage_on_aws
def test_the_page_has_what_an_idle_stage_costs(stage: str) -> None:
    found = idle.counts(template(stage).values())

    names = ("kms_key_month", "secret_month", idle.ALARM, "dashboard_month")
    counted = " | ".join(str(found[name]) for name in names)
    line = f"| `{stage}` | {counted} | {idle.dollars(found, PRICES):.2f} |"
    assert found.keys() == {*names}
    assert line in PAGE, line


@pytest.mark.parametrize(
    ("properties", "metrics"),
    [
        ({"MetricName": "Settled"}, 1),
        ({"Metrics": [{"MetricStat": {}}, {"MetricStat": {}}, {"Expression": "a + b"}]}, 2),
    ],
)
def test_an_alarm_counts_the_metrics_that_it_reads(properties: dict[str, object], metrics: int) -> None:
    alarm = {"Type": "AWS::CloudWatch::Alarm", "Properties": properties}

    assert idle.counts([alarm, {"Type": "AWS::SNS::Topic"}]) == {idle.ALARM: metrics}
