"""The stage of `tools/everything_on.py` enables each option that a stage may set."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from aws_cdk.assertions import Template

from infra.concurrency import Concurrency
from infra.config import Settings
from infra.kyc_config import KycSettings
from infra.rooms import HANDLERS
from tests.infra.stack import OF_PAYOUTS, OF_PAYRUNS
from tests.world.rooms import there
from tools import everything_on

OFF = {
    "embedded_python": "is for the embedded AWS",
    "told": "is set by the construct",
    "restored_table": "replaces the stack's table; the stage `restored` has it",
    "restored_stream": "as restored_table",
}


def left_off(settings: Any) -> Iterator[str]:
    """Yield the settings that are off: false flags and unchanged defaults, except numbers."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        default = (
            field.default_factory()
            if field.default_factory is not dataclasses.MISSING
            else None
            if field.default is dataclasses.MISSING
            else field.default
        )
        if isinstance(default, bool):
            is_off = value is not True
        else:
            is_off = not isinstance(default, int) and (value == default or not value)
        if is_off:
            yield field.name


def test_the_stage_with_everything_enables_each_option() -> None:
    settings = everything_on.settings("everything")

    assert set(left_off(settings)) == OFF.keys()
    assert set(left_off(settings.kyc)) == set(left_off(settings.concurrency)) == set()
    assert set(left_off(everything_on.settings("restored"))) == {"embedded_python", "told"}


def test_an_option_that_is_off_is_found() -> None:
    plain = Settings(stage="dev", currencies=("EUR",))

    assert {"snap_start", "canary_percent", "approvals", "fee", "books_every_minutes"} <= set(left_off(plain))
    assert "keeps_data" in set(left_off(dataclasses.replace(plain, keeps_data=False)))
    assert "health_path" in set(left_off(KycSettings()))
    assert "kyc" in set(left_off(Concurrency()))
    assert not {"stage", "currencies"} & set(left_off(plain))


def test_the_stage_with_everything_has_every_function_and_resource() -> None:
    _, stack = everything_on.stack("restored")
    resources = Template.from_stack(stack).to_json()["Resources"].values()

    optional = ("ReadStatements", *there("books", "ProjectEntries"), *OF_PAYOUTS, *OF_PAYRUNS)
    functions = sum(one["Type"] == "AWS::Lambda::Function" for one in resources)
    assert functions == len(HANDLERS) + len(optional)
    assert {
        *("AWS::RDS::DBCluster", "AWS::Backup::BackupVault", "AWS::StepFunctions::StateMachineAlias"),
        *("AWS::Lambda::Version", "AWS::SNS::Subscription"),
    } <= {one["Type"] for one in resources}
    assert everything_on.RESTORED["restored_table"] in str([*resources])
