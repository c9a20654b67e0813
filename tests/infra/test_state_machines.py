import json
import re
from dataclasses import replace
from typing import Any

import pytest

from infra.assets import STATE_MACHINES
from infra.config import STAGES
from infra.state_machines import render_definition
from tests.infra.stack import (
    EMBEDDED,
    MACHINES,
    SETTLEMENTS,
    changed,
    definition,
    each_stage,
    each_stage_on_aws,
    functions,
    machines,
    properties,
)
from tests.infra.test_functions import RETENTION_DAYS

START = {
    "SettlementExpress": "arn:aws:states:::states:startExecution",
    "SettlementStandard": "arn:aws:states:::states:startExecution.sync:2",
}
"""Each machine's integration for starting its compensation: Express cannot wait for the end."""

FILES = {
    **dict.fromkeys(SETTLEMENTS, "settlement"),
    "Compensation": "compensation",
    "PayOut": "pay_out",
}

each_machine = pytest.mark.parametrize("machine", MACHINES)
each_stages_machine = pytest.mark.parametrize(
    ("stage", "machine"), [(stage, machine) for stage in STAGES for machine in machines(stage)]
)


def deployed(stage: str, machine: str) -> Any:
    return properties(stage, "StepFunctions::StateMachine")[machine]


@each_stage
def test_there_is_one_machine_of_each_name_type_and_file(stage: str) -> None:
    """Both settlement machines share one definition, except for the start of a compensation."""
    found = properties(stage, "StepFunctions::StateMachine")

    assert {name: machine["StateMachineType"] for name, machine in found.items()} == machines(stage)
    for name, machine in found.items():
        assert machine["DefinitionString"] == render_definition(FILES[name], STAGES[stage])


@each_stages_machine
def test_each_placeholder_is_replaced_by_the_resource_it_names(stage: str, machine: str) -> None:
    found = deployed(stage, machine)
    placeholders = set(re.findall(r"\$\{(.*?)\}", found["DefinitionString"]))
    others = {"Compensation": "${Compensation}", "EventBus": "${PagerBus}"}
    if machine in START:
        others["StartCompensation"] = START[machine]

    versions = STAGES[stage].qualified_functions and machine in SETTLEMENTS
    function = "${%sCurrentVersion}" if versions else "${%s.Arn}"

    assert found["DefinitionSubstitutions"] == {
        placeholder: others.get(placeholder, function % placeholder) for placeholder in placeholders
    }
    assert placeholders - others.keys() <= functions(stage)


@each_stages_machine
def test_executions_are_logged_and_traced_without_their_payloads(stage: str, machine: str) -> None:
    """A log group with this prefix needs no entry in the account's resource policy of 5,120 characters."""
    found = deployed(stage, machine)
    group = properties(stage, "Logs::LogGroup")[f"{machine}Logs"]

    assert found["TracingConfiguration"] == {"Enabled": True}
    assert found["LoggingConfiguration"] == {
        "Level": "ERROR" if stage == "prod" and machine in SETTLEMENTS else "ALL",
        "IncludeExecutionData": False,
        "Destinations": [{"CloudWatchLogsLogGroup": {"LogGroupArn": f"${{{machine}Logs.Arn}}"}}],
    }
    assert group["LogGroupName"] == f"/aws/vendedlogs/states/settlement-{stage}-{machine}"
    assert group["RetentionInDays"] == RETENTION_DAYS[stage]


@each_stage_on_aws
@each_machine
def test_a_sampling_rule_matches_only_its_own_machine(stage: str, machine: str) -> None:
    found = dict(properties(stage, "XRay::SamplingRule")[f"{machine}Traces"]["SamplingRule"])

    matched = {name: found.pop(name) for name in ("ServiceName", "ServiceType")}
    assert matched == {
        "ServiceName": f"${{{machine}.Name}}",
        "ServiceType": "AWS::StepFunctions::StateMachine",
    }
    assert {found.pop(name) for name in ("Host", "HTTPMethod", "URLPath", "ResourceARN")} == {"*"}
    assert found.pop("RuleName").startswith(f"settle-{stage}-")
    assert found == {"FixedRate": 0.01, "ReservoirSize": 0, "Priority": 1_000, "Version": 1}


@each_machine
def test_sampling_rules_fit_the_longest_stage_name(machine: str) -> None:
    rules = changed("dev", stage="my-abcdefghijkl", keeps_data=False, traced_percent=12.5)
    rule = rules[f"{machine}Traces"]["Properties"]["SamplingRule"]

    assert properties("local", "XRay::SamplingRule") == {}
    assert len(rule["RuleName"]) <= 32
    assert rule["FixedRate"] == 0.125


@each_stage_on_aws
def test_on_aws_the_wait_lasts_until_the_next_alert(stage: str) -> None:
    """Waits grow, because a fixed one would alert at the same pace for months."""
    waiting = definition(stage, "Compensation")["States"]["AwaitResolution"]

    assert waiting["TimeoutSecondsPath"] == "$.wait_seconds"
    assert "TimeoutSeconds" not in waiting


@pytest.mark.parametrize("stage", EMBEDDED)
@pytest.mark.parametrize("seconds", [60, 61])
def test_on_the_embedded_aws_every_wait_has_the_same_length(stage: str, seconds: int) -> None:
    """The embedded AWS has no TimeoutSecondsPath. Its timeout factor is for functions, not for people."""
    settings = replace(STAGES[stage], alert_again_after_seconds=seconds)

    waiting = json.loads(render_definition("compensation", settings))["States"]["AwaitResolution"]

    assert waiting["TimeoutSeconds"] == seconds
    assert "TimeoutSecondsPath" not in waiting


@each_stage
@pytest.mark.parametrize("file", ["settlement", "compensation", "pay_out"])
def test_a_stage_multiplies_timeouts_and_changes_nothing_else(stage: str, file: str) -> None:
    written = json.loads((STATE_MACHINES / f"{file}.asl.json").read_text())
    rendered = json.loads(render_definition(file, STAGES[stage]))

    for name, state in written["States"].items():
        found = rendered["States"][name]
        if "TimeoutSeconds" in state:
            assert found["TimeoutSeconds"] == state["TimeoutSeconds"] * STAGES[stage].timeout_factor
        for timeout in ("TimeoutSeconds", "TimeoutSecondsPath"):
            state.pop(timeout, None)
            found.pop(timeout, None)

    assert rendered == written
