from typing import Any

import pytest

from infra.canary import STOPS
from tests.infra.stack import SETTLEMENTS, STARTING, changed

each_settlement = pytest.mark.parametrize("machine", SETTLEMENTS)


def resources() -> dict[str, Any]:
    return changed(canary_percent=10, canary_minutes=20)


@pytest.mark.parametrize("door", ["StartSettlements", "AcceptSettlements"])
def test_during_a_shift_a_doors_earlier_code_may_start_standard(door: str) -> None:
    (policy,) = (
        one["Properties"]["PolicyDocument"]["Statement"]
        for name, one in resources().items()
        if name == f"{door}RoleDefaultPolicy"
    )

    (starts,) = (one["Resource"] for one in policy if one["Action"] == "states:StartExecution")
    assert sorted(starts) == ["${SettlementExpress}", "${SettlementStandard}"]


def test_starters_use_the_alias_and_are_updated_after_the_shift() -> None:
    for function in STARTING:
        known = resources()[function]["Properties"]["Environment"]["Variables"]
        assert known["EXPRESS_MACHINE"] == "${SettlementExpressLiveAlias.Arn}"

    recovery = resources()["RecoverStalled"]["Properties"]["Environment"]["Variables"]
    assert recovery["SETTLEMENT_MACHINE"] == "${SettlementStandardLiveAlias.Arn}"
    assert recovery["COMPENSATION_MACHINE"] == "${Compensation}"


@each_settlement
def test_each_revision_of_a_machine_is_a_version_which_stays(machine: str) -> None:
    """The alias needs the previous version during the shift, and a person may switch back."""
    version = resources()[f"{machine}LiveVersion"]

    assert version["Properties"] == {
        "StateMachineArn": f"${{{machine}}}",
        "StateMachineRevisionId": f"${{{machine}.StateMachineRevisionId}}",
    }
    assert (version["DeletionPolicy"], version["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")


@each_settlement
def test_the_alias_shifts_a_share_then_all_without_an_alarm(machine: str) -> None:
    assert resources()[f"{machine}LiveAlias"]["Properties"] == {
        "Name": "live",
        "DeploymentPreference": {
            "Type": "CANARY",
            "Percentage": 10,
            "Interval": 20,
            "StateMachineVersionArn": f"${{{machine}LiveVersion.Arn}}",
            "Alarms": [
                *("${PagerSettlementExpressFailed}", "${PagerSettlementExpressTimedOut}"),
                *("${PagerSettlementStandardFailed}", "${PagerSettlementStandardTimedOut}"),
                *("${PagerFunctionFailed}", "${PagerRecoveries}"),
            ],
        },
    }


def test_each_stopping_alarm_of_the_stage_ends_within_the_canary() -> None:
    """A longer look back would end the next deployment for the previous one's faults."""
    for alarm in STOPS:
        found = resources()[f"Pager{alarm}"]
        assert found["Type"] == "AWS::CloudWatch::Alarm"
        assert found["Properties"]["EvaluationPeriods"] * found["Properties"]["Period"] <= 300
