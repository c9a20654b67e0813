"""A role that delivers a stage from GitHub, for the jobs of one environment.

cdk deploy --app 'python3 -m infra.delivery' -c stage=prod -c repository=OWNER@1234/NAME@5678

An account has one identity provider of GitHub. `-c provider=existing` reuses it. `-c acceptance=ARN,ARN` adds
a role for `settle acceptance`; the ARNs are policies of a deployed stage.
"""

import re
from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from .config import STAGES

GITHUB = "token.actions.githubusercontent.com"
_AUDIENCE = "sts.amazonaws.com"
_OWNER, _NAME = r"[A-Za-z0-9-]{1,39}", r"[A-Za-z0-9._-]{1,100}"
_REPOSITORY = re.compile(rf"{_OWNER}/{_NAME}|{_OWNER}@[0-9]+/{_NAME}@[0-9]+")
"""OWNER/NAME, or OWNER@ID/NAME@ID. With ids, a later repository of the same name is refused.

GitHub's tokens have ids for repositories created after 2026-07-15.
"""

_POLICY = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:policy/([\w+=,.@-]{1,128})")
_BOOTSTRAP = ("deploy", "file-publishing", "lookup")

_OF_NO_RESOURCE = (
    *("lambda:GetAccountSettings", "logs:DescribeLogGroups"),
    "states:ValidateStateMachineDefinition",
)
"""Actions of `settle preflight` that IAM cannot scope to a resource."""


class Delivery(Stack):
    """The delivering role. It changes things only through CDK's roles."""

    def __init__(
        self,
        scope: Construct,
        stage: str,
        repository: str,
        *,
        provider_exists: bool = False,
        acceptance: Sequence[str] = (),
    ) -> None:
        """Raise ValueError for a stage outside AWS, a bad repository or forbidden policies."""
        if stage not in STAGES or STAGES[stage].is_embedded:
            raise ValueError(f"stage: {stage} is none that is deployed to AWS")
        if not _REPOSITORY.fullmatch(repository):
            raise ValueError("repository: must be OWNER/NAME, or OWNER@ID/NAME@ID with GitHub's ids")
        _check_acceptance(stage, acceptance)
        super().__init__(scope, f"settlement-{stage}-delivery")
        self._stack = STAGES[stage].stack_name
        subject = f"repo:{repository}:environment:{stage}"
        of_jobs = iam.WebIdentityPrincipal(
            self._provider(provider_exists),
            {"StringEquals": {f"{GITHUB}:aud": _AUDIENCE, f"{GITHUB}:sub": subject}},
        )
        jobs = f"from the environment {stage} of {repository}."
        self.role = iam.Role(
            self, "Deployer", description=f"Deploys {self._stack} {jobs}", assumed_by=of_jobs
        )
        if acceptance:
            tries = iam.Role(
                self,
                "Acceptance",
                description=f"Runs settle acceptance on {self._stack} {jobs}",
                assumed_by=of_jobs,
                managed_policies=[
                    iam.ManagedPolicy.from_managed_policy_arn(self, f"Policy{number}", one)
                    for number, one in enumerate(acceptance)
                ],
            )
            cdk.CfnOutput(self, "AcceptanceRole", value=tries.role_arn)
        place = f"{self.account}-{self.region}"
        self._allow(
            ["sts:AssumeRole"],
            *(self._arn("iam", "role", f"cdk-hnb659fds-{one}-role-{place}") for one in _BOOTSTRAP),
        )
        self._allow(
            ["lambda:GetFunctionConcurrency"], self._arn("lambda", "function", f"{self._stack}-*", ":")
        )
        layers = f"arn:{self.partition}:lambda:{self.region}:*:layer:*"  # Powertools', in AWS's account
        self._allow(["lambda:GetLayerVersion"], layers)
        self._allow(
            [f"cloudformation:{one}" for one in ("DescribeStacks", "GetTemplate", "ListStackResources")],
            self._arn("cloudformation", "stack", f"{self._stack}/*"),
            self._arn("cloudformation", "stack", "CDKToolkit/*"),
        )
        self._allow(
            ["events:DescribeEventBus"],
            *(self._arn("events", "event-bus", f"{self._stack}{one}") for one in ("", "-outcomes")),
        )
        self._allow(
            ["secretsmanager:DescribeSecret"],
            self._arn("secretsmanager", "secret", f"{self._stack}-*", ":"),
            self._arn("secretsmanager", "secret", "KycCredentials*", ":"),
        )
        self._allow(["sns:ListSubscriptionsByTopic"], self._arn("sns", f"{self._stack}-*", ""))
        self._allow(
            ["ssm:GetParameter"],
            self._arn("ssm", "parameter", "cdk-bootstrap/*"),
            f"arn:{self.partition}:ssm:{self.region}::parameter/aws/service/powertools/*",
        )
        self._allow(list(_OF_NO_RESOURCE), "*")
        cdk.CfnOutput(self, "DeployerRole", value=self.role.role_arn)

    def _provider(self, exists: bool) -> str:
        if exists:
            return f"arn:{self.partition}:iam::{self.account}:oidc-provider/{GITHUB}"
        made = iam.CfnOIDCProvider(self, "GitHub", url=f"https://{GITHUB}", client_id_list=[_AUDIENCE])
        made.apply_removal_policy(cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)  # other stacks may use it
        return made.attr_arn

    def _arn(self, service: str, resource: str, name: str, separator: str = "/") -> str:
        region = "" if service == "iam" else self.region
        path = f"{resource}{separator}{name}" if name else resource
        return f"arn:{self.partition}:{service}:{region}:{self.account}:{path}"

    def _allow(self, actions: list[str], *resources: str) -> None:
        self.role.add_to_policy(iam.PolicyStatement(actions=actions, resources=list(resources)))


def _check_acceptance(stage: str, policies: Sequence[str]) -> None:
    if policies and STAGES[stage].must_reach_people:
        raise ValueError(f"acceptance: pays, pages and decides alone, so that {stage} has no role for it")
    for one in policies:
        found = _POLICY.fullmatch(one)
        if found is None or not found[1].startswith(f"{STAGES[stage].stack_name}-"):
            raise ValueError(f"acceptance: must be ARNs of policies of {STAGES[stage].stack_name}: {one}")


def main() -> None:
    app = cdk.App()
    stage, repository, provider, acceptance = (
        app.node.try_get_context(name) or "" for name in ("stage", "repository", "provider", "acceptance")
    )
    try:
        policies = [one for one in acceptance.split(",") if one]
        Delivery(app, stage, repository, provider_exists=provider == "existing", acceptance=policies)
    except ValueError as wrong:
        raise SystemExit(str(wrong)) from None
    app.synth()


if __name__ == "__main__":
    main()
