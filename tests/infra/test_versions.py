"""Tests that an execution in flight keeps its function code across a deployment."""

from typing import Any

from infra.config import STAGES
from infra.functions import WAITED_FOR
from tests.infra.stack import (
    FUNCTIONS,
    SETTLEMENTS,
    changed,
    changed_template,
    definition,
    each_stage,
    resources,
    template,
)
from tests.world import templates


@each_stage
def test_on_aws_functions_of_the_settlement_machine_have_lasting_versions(stage: str) -> None:
    versions = resources(stage, "Lambda::Version")
    wanted = set() if STAGES[stage].is_embedded else {f"${{{function}}}" for function in WAITED_FOR}

    assert {one["Properties"]["FunctionName"] for one in versions.values()} == wanted
    for one in versions.values():
        assert (one["DeletionPolicy"], one["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")


@each_stage
def test_versions_exist_for_exactly_the_settlement_machines_functions(stage: str) -> None:
    for machine in SETTLEMENTS:
        states = definition(stage, machine)["States"]
        called = {one for one, state in states.items() if ":lambda:invoke" in state.get("Resource", "")}
        assert called == set(WAITED_FOR)


def test_changing_a_functions_settings_publishes_another_version() -> None:
    """CloudFormation publishes nothing for a version with an unchanged name."""

    def versions(found: Any) -> set[str]:
        return {name for name, one in found["Resources"].items() if one["Type"] == "AWS::Lambda::Version"}

    before = versions(templates.template("prod"))

    assert versions(changed_template("prod")) == before != set()
    assert not versions(changed_template("prod", function_memory_mb=1_024)) & before


def test_with_snap_start_the_settlement_machines_functions_use_snapshots() -> None:
    def snapped(found: dict[str, Any]) -> dict[str, Any]:
        own = {name: found[name]["Properties"] for name in FUNCTIONS}
        return {name: one["SnapStart"] for name, one in own.items() if "SnapStart" in one}

    assert snapped(template("prod")) == {}
    assert snapped(changed("prod", snap_start=True)) == {
        name: {"ApplyOn": "PublishedVersions"} for name in WAITED_FOR
    }
