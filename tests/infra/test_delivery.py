import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
import yaml
from aws_cdk.assertions import Template
from cdk_nag import AwsSolutionsChecks

from infra.config import CONTEXT
from infra.delivery import Delivery
from tests.infra.evaluator import listed
from tests.infra.stack import ON_AWS, readable
from tests.world.templates import PROJECT, app

WORKFLOWS = sorted((PROJECT / ".github/workflows").glob("*.yml"))
REPOSITORY = "octo-org/payments"
PINNED = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40}")
POLICIES = [
    f"arn:aws:iam::123456789012:policy/settlement-dev-{one}" for one in ("PeopleViewer1", "Acceptance1")
]
WILDCARDS = {
    *("lambda:GetAccountSettings", "logs:DescribeLogGroups", "states:ValidateStateMachineDefinition")
}
"""Read actions that IAM cannot scope to one resource."""


def template(stage: str = "prod", repository: str = REPOSITORY, **more: Any) -> dict[str, Any]:
    found = Template.from_stack(Delivery(app(), stage, repository, **more)).to_json()["Resources"]
    return {one["Type"]: one["Properties"] for one in found.values()}


def statements(stage: str = "prod") -> list[Any]:
    found: list[Any] = readable(template(stage)["AWS::IAM::Policy"]["PolicyDocument"]["Statement"])
    return found


def steps(path: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for job in yaml.safe_load(path.read_text())["jobs"].values():
        for step in job.get("steps", ()):
            yield job, step


@pytest.mark.parametrize("repository", ["octo-org/payments", "octo-org@123456/payments@456789"])
@pytest.mark.parametrize("stage", ON_AWS)
def test_only_the_repositorys_stage_environment_can_assume_the_role(stage: str, repository: str) -> None:
    (trust,) = template(stage, repository)["AWS::IAM::Role"]["AssumeRolePolicyDocument"]["Statement"]

    assert trust["Action"] == "sts:AssumeRoleWithWebIdentity"
    assert trust["Condition"] == {
        "StringEquals": {
            "token.actions.githubusercontent.com:aud": "sts.amazonaws.com",
            "token.actions.githubusercontent.com:sub": f"repo:{repository}:environment:{stage}",
        }
    }


def test_the_delivery_role_changes_things_only_through_cdks_roles() -> None:
    changing = [
        action
        for one in statements()
        for action in listed(one["Action"])
        if not action.partition(":")[2].startswith(("Describe", "Get", "List", "Validate"))
    ]
    taken = [
        resource for one in statements() if one["Action"] == "sts:AssumeRole" for resource in one["Resource"]
    ]

    assert changing == ["sts:AssumeRole"]
    assert [one.partition(":role/")[2] for one in taken] == [
        f"cdk-hnb659fds-{one}-role-${{AWS::AccountId}}-${{AWS::Region}}"
        for one in ("deploy", "file-publishing", "lookup")
    ]
    everywhere = {
        action for one in statements() if one["Resource"] == "*" for action in listed(one["Action"])
    }
    assert everywhere == WILDCARDS


def test_the_delivery_role_reads_no_secret_and_no_row() -> None:
    actions = {action for one in statements() for action in listed(one["Action"])}

    assert "secretsmanager:GetSecretValue" not in actions
    assert not [one for one in actions if one.startswith(("dynamodb:", "s3:", "kms:"))]
    assert [one for one in actions if one.startswith("states:")] == ["states:ValidateStateMachineDefinition"]


def test_an_account_with_an_oidc_provider_gets_no_second_one() -> None:
    assert "AWS::IAM::OIDCProvider" in template()
    assert "AWS::IAM::OIDCProvider" not in template(provider_exists=True)


@pytest.mark.parametrize(
    ("stage", "repository", "acceptance", "told"),
    [
        ("local", REPOSITORY, (), "stage: local is none that is deployed to AWS"),
        ("prd", REPOSITORY, (), "stage: prd is none"),
        *(
            ("prod", repository, (), "repository: must be OWNER/NAME")
            for repository in (
                *("payments", "octo-org/payments:*", "octo-org/*"),
                *("octo-org@123456/payments", "octo-org@123456/payments@*"),
            )
        ),
        (
            *("prod", REPOSITORY, (POLICIES[0],)),
            "acceptance: pays, pages and decides alone, so that prod has no role for it",
        ),
        *(
            ("dev", REPOSITORY, (policy,), "acceptance: must be ARNs of policies of settlement-dev")
            for policy in (
                "arn:aws:iam::aws:policy/AdministratorAccess",
                POLICIES[0].replace("-dev-", "-prod-"),
                "settlement-dev-PeopleViewer",
            )
        ),
    ],
)
def test_an_invalid_delivery_setting_is_refused_by_name(
    stage: str, repository: str, acceptance: tuple[str, ...], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        Delivery(app(), stage, repository, acceptance=acceptance)


def test_delivery_and_acceptance_roles_trust_the_same_jobs() -> None:
    stack = Delivery(app(), "dev", REPOSITORY, acceptance=POLICIES)
    deployer, tries = (
        one["Properties"]
        for one in Template.from_stack(stack).to_json()["Resources"].values()
        if one["Type"] == "AWS::IAM::Role"
    )

    assert tries["AssumeRolePolicyDocument"] == deployer["AssumeRolePolicyDocument"]
    assert (tries["ManagedPolicyArns"], "ManagedPolicyArns" in deployer) == (POLICIES, False)


def test_the_only_cdk_nag_finding_of_delivery_is_a_wildcard(tmp_path: Path) -> None:
    root = app(str(tmp_path))
    Delivery(root, "prod", REPOSITORY)
    cdk.Validations.of(root).add_plugins(AwsSolutionsChecks(root))
    with pytest.raises(RuntimeError, match=r"^ValidationFailed: "):
        root.synth()
    (report,) = json.loads((tmp_path / "validation-report.json").read_text())["pluginReports"]

    assert {one["ruleName"].partition("[")[0] for one in report["violations"]} == {"AwsSolutions-IAM5"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_each_action_is_pinned_and_keeps_no_credentials(path: Path) -> None:
    for _, step in steps(path):
        used = step.get("uses", "")
        assert not used or PINNED.fullmatch(used), used
        if used.startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_each_job_names_its_permissions_and_interpolates_no_shell_text(path: Path) -> None:
    assert yaml.safe_load(path.read_text())["permissions"] == {}
    for job, step in steps(path):
        attests = {"attestations"} if path.name == "release.yml" else set()
        assert set(job["permissions"]) <= {"contents", "id-token", *attests}
        assert "${{" not in step.get("run", ""), "an expression in a script may be a script itself"


def test_prod_is_delivered_after_devs_acceptance_and_only_on_push() -> None:
    jobs = yaml.safe_load((PROJECT / ".github/workflows/deliver.yml").read_text())["jobs"]

    assert (jobs["dev"]["needs"], jobs["prod"]["needs"]) == ("check", "dev")
    assert jobs["dev"]["with"] == {"stage": "dev", "acceptance": True}
    assert jobs["prod"]["with"]["stage"] == "prod"
    for job in ("dev", "prod"):
        assert jobs[job]["if"] == "github.event_name == 'push'"
    assert jobs["check"]["permissions"] == {"contents": "read"}


def test_a_stage_is_deployed_by_one_job_in_its_environment() -> None:
    (job,) = yaml.safe_load((PROJECT / ".github/workflows/deploy.yml").read_text())["jobs"].values()
    runs = [step.get("run", "") for step in job["steps"]]

    assert job["environment"] == "${{ inputs.stage }}"
    assert job["concurrency"] == {"group": "deploy-${{ inputs.stage }}", "cancel-in-progress": False}
    assert [one.split()[:2] for one in runs if one] == [
        ["make", "setup"],
        ["make", "deliver"],
        [".venv/bin/settle", "acceptance"],
    ]
    assert "cdk deploy" not in str(runs)
    given = {name: f"${{{{ vars.{name} }}}}" for name in (one.upper() for one in CONTEXT if one != "stage")}
    assert given.items() <= job["env"].items(), (
        "what `make deliver` reads, else the next delivery takes it back"
    )
