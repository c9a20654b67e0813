from typing import Any

from infra.config import STAGES
from tests.infra.stack import each_stage_on_aws, template

UNTAGGED = {
    *("AWS::ApiGatewayV2::Integration", "AWS::ApiGatewayV2::Route"),
    *("AWS::IAM::ManagedPolicy", "AWS::IAM::Policy"),
    *("AWS::Lambda::EventInvokeConfig", "AWS::Lambda::Permission"),
    *("AWS::Lambda::Url", "AWS::Lambda::Version"),
    *("AWS::S3::BucketPolicy", "AWS::SNS::TopicPolicy", "AWS::SQS::QueuePolicy"),
    *("AWS::SNS::Subscription", "AWS::Scheduler::Schedule"),
}
"""Types that CloudFormation does not tag. Of these, only schedules have a price."""


def tags(resource: Any) -> dict[str, str]:
    """Return a resource's tags: a map in API Gateway, else a list."""
    found = resource.get("Properties", {}).get("Tags", {})
    return dict(found) if isinstance(found, dict) else {one["Key"]: one["Value"] for one in found}


@each_stage_on_aws
def test_each_taggable_resource_has_the_project_and_stage_tags(stage: str) -> None:
    """For a new type, add its tag or list it in UNTAGGED."""
    for name, resource in template(stage).items():
        expected = {} if resource["Type"] in UNTAGGED else {"project": "settlement", "stage": stage}
        assert tags(resource) == expected, name


@each_stage_on_aws
def test_the_listed_untagged_types_are_exactly_those_of_the_stack(stage: str) -> None:
    found = template(stage).values()

    assert {one["Type"] for one in found if not tags(one)} == UNTAGGED & {one["Type"] for one in found}


def test_two_stages_of_one_account_have_separate_bill_lines() -> None:
    assert len({tuple(settings.tags.items()) for settings in STAGES.values()}) == len(STAGES)
