"""Checks which roles exist, and who uses each.

Permissions: test_least_privilege.py and test_least_privilege_others.py.
"""

from typing import Any

from infra.config import STAGES
from tests.infra.stack import (
    FUNCTIONS,
    PAYING,
    READING,
    RUNNING,
    STARTING,
    each_stage,
    functions,
    granted,
    machines,
    properties,
    variables,
)
from tests.world.rooms import there

EXPRESS, STANDARD = "${SettlementExpress}", "${SettlementStandard}"


def scheduled(stage: str) -> tuple[str, ...]:
    """Return the functions with schedules: VerifyKyc only if its provider reports its health."""
    checked = ("VerifyKyc",) if STAGES[stage].kyc.health_path else ()
    reading = ("ReadStatements",) if stage in READING else ()
    paying = ("FollowPayouts",) if stage in PAYING else ()
    running = ("PayLines",) if stage in RUNNING else ()
    return ("RecoverStalled", "SealJournal", "ReconcileBooks", *checked, *reading, *paying, *running)


IN_THIS_ACCOUNT = {"StringEquals": {"aws:SourceAccount": "${AWS::AccountId}"}}


def scheduler(stage: str, function: str) -> str:
    (found,) = (
        role
        for role in properties(stage, "IAM::Role")
        if role.startswith("SchedulerRole") and function in str(granted(stage, role))
    )
    return found


@each_stage
def test_each_role_has_one_user_and_its_service_assumes_it(stage: str) -> None:
    """An additional role could read secrets, query the index, use queues, or invoke recovery.

    Services of machines and schedules must act for this account, because others have machines too.
    """
    services = {
        **{f"{function}Role": ("lambda", None) for function in functions(stage)},
        **{f"{machine}Role": ("states", IN_THIS_ACCOUNT) for machine in machines(stage)},
        **{scheduler(stage, function): ("scheduler", IN_THIS_ACCOUNT) for function in scheduled(stage)},
    }
    roles = properties(stage, "IAM::Role")

    assert roles.keys() == services.keys()
    for role, found in roles.items():
        (trust,) = found["AssumeRolePolicyDocument"]["Statement"]
        service, only_if = services[role]
        assert (trust["Effect"], trust["Action"]) == ("Allow", "sts:AssumeRole")
        assert trust["Principal"] == {"Service": f"{service}.amazonaws.com"}, role
        if only_if:
            account = only_if["StringEquals"].items()
            assert account <= trust["Condition"]["StringEquals"].items(), role
    for function, found in properties(stage, "Lambda::Function").items():
        assert found["Role"] == f"${{{function}Role.Arn}}"
    for machine, found in properties(stage, "StepFunctions::StateMachine").items():
        assert found["RoleArn"] == f"${{{machine}Role.Arn}}"


@each_stage
def test_no_resource_policy_admits_callers_in_addition_to_roles(stage: str) -> None:
    for kind in ("SecretsManager::ResourcePolicy", "Events::EventBusPolicy"):
        assert properties(stage, kind) == {}
    assert {one["FunctionName"] for one in properties(stage, "Lambda::Permission").values()} == {
        *("${KycDecided.Arn}", "${TakeOrder.Arn}", "${ReadSettlements.Arn}"),
        "${SendPage.Arn}",
        *(("${BankEvents.Arn}", "${ServePayouts.Arn}") if stage in PAYING else ()),
        *there("doors", "${AcceptSettlements.Arn}", "${CancelSettlement.Arn}"),
    }
    assert {one["FunctionName"] for one in properties(stage, "Lambda::EventSourceMapping").values()} == {
        *("${PublishEvents}", "${SealJournal}"),
        *there("doors", "${StartSettlements}"),
        *there("merchants", "${SweepMerchants}"),
    }


@each_stage
def test_only_the_starting_functions_know_the_machines_arns(stage: str) -> None:
    """A step that could start executions would be a second way to settle, or to reverse."""
    for function in FUNCTIONS:
        known = {
            name: value for name, value in variables(stage, function).items() if name.endswith("_MACHINE")
        }
        expected: dict[str, Any] = {"EXPRESS_MACHINE": EXPRESS} if function in STARTING else {}
        if function == "RecoverStalled":
            expected |= {"SETTLEMENT_MACHINE": STANDARD}
        if function in ("RecoverStalled", "TakeOrder"):
            expected |= {"COMPENSATION_MACHINE": "${Compensation}"}
        assert known == expected, function
