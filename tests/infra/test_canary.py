from typing import Any

import pytest

from infra.canary import STOPS
from tests.infra.stack import SETTLEMENTS, STARTING, changed

each_settlement = pytest.mark.parametrize("machine", SETTLEMENTS)


def resources() -> dict[str, Any]:
    return changed(canary_percent=10, canary_minutes=20)


@pytest.mark.parametrize("door", ["StartSettlements", "AcceptSettlements"])
def test_starting_roles_allow_express_and_standard_during_a_shift(door: str) -> None:
    (policy,) = (
        one["Properties"]["PolicyDocument"]["Statement"]
        for name, one in resources().items()
        if name == f"{door}RoleDefaultPolicy"
    )

    (starts,) = (one["Resource"] for one in policy if one["Action"] == "states:StartExecution")
    assert sorted(starts) == ["${SettlementExpress}", "${SettlementStandard}"]


def test_functions_start_the_settlement_machines_by_their_live_alias() -> None:
    for function in STARTING:
        known = resources()[function]["Properties"]["Environment"]["Variables"]
        assert known["EXPRESS_MACHINE"] == "${SettlementExpressLiveAlias.Arn}"

    recovery = resources()["RecoverStalled"]["Properties"]["Environment"]["Variables"]
    assert recovery["SETTLEMENT_MACHINE"] == "${SettlementStandardLiveAlias.Arn}"
    assert recovery["COMPENSATION_MACHINE"] == "${Compensation}"


@each_settlement
def test_each_revision_of_a_machine_is_a_retained_version(machine: str) -> None:
    """The alias needs the previous version during the shift, and a person may switch back."""
    version = resources()[f"{machine}LiveVersion"]

    assert version["Properties"] == {
        "StateMachineArn": f"${{{machine}}}",
        "StateMachineRevisionId": f"${{{machine}.StateMachineRevisionId}}",
    }
    assert (version["DeletionPolicy"], version["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")


@each_settlement
def test_the_alias_shifts_a_share_then_all_unless_alarmed(machine: str) -> None:
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


def test_alarms_that_stop_a_shift_evaluate_five_minutes_at_most() -> None:
    """A longer evaluation would stop the next deployment for the previous one's faults."""
    for alarm in STOPS:
        found = resources()[f"Pager{alarm}"]
        assert found["Type"] == "AWS::CloudWatch::Alarm"
        assert found["Properties"]["EvaluationPeriods"] * found["Properties"]["Period"] <= 300
