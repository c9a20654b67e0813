"""A stage's own checks. Their code and secrets are in VerifyKyc; their callbacks have a function."""

import json
import os
import shutil
import string
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3_assets as assets
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from .assets import LAMBDAS
from .core import Added, Core, Room
from .grants import EVIDENCE, SETTLEMENT, Handler
from .settings import CoreSettings
from .state_machines import SettlementMachine
from .urgency import Urgency
from .webhook import Receiver, Webhook, WebhookSettings

_SECONDS_MAX = 10
"""Time to import one check at synthesis. VerifyKyc imports all checks within its ten seconds of start."""

_DECLARED_LENGTH_MAX = 2_000
"""Longest declaration in an environment variable. All variables together have 4 KB."""

_PACKAGE = "stage_checks"

_ANSWERS = ("approved", "refused", "waits", "unavailable")

_DECIDED = Handler(
    rows={
        "GetItem": (SETTLEMENT, EVIDENCE),
        "Put": (EVIDENCE,),
        "Update": (SETTLEMENT,),
        "UpdateItem": (SETTLEMENT,),
    },
    names=("hold_at",),
    by_http=True,
    failure=Urgency.MORNING,
)


@dataclass(frozen=True, kw_only=True)
class Check:
    """A saga's check: a Python file with a `CHECK`, and the check's own secrets and statements.

    New payments do not demand a `retired` check; earlier payments still get its answer. All checks run in
    VerifyKyc's role, which moves no money. So each check could use the secrets of all.
    """

    file: str | Path
    retired: bool = False
    secrets: Mapping[str, secretsmanager.ISecret] = field(default_factory=dict)
    statements: Sequence[iam.PolicyStatement] = ()


@dataclass(frozen=True, kw_only=True)
class _Declared:
    check: Check
    name: str
    refusals: Sequence[str]
    wait_seconds: int

    @property
    def waits(self) -> bool:
        return self.wait_seconds > 0

    @property
    def told(self) -> dict[str, Any]:
        return {"name": self.name, "refusals": self.refusals, "wait_seconds": self.wait_seconds}

    @property
    def output(self) -> str:
        return f"CheckSigning{''.join(word.capitalize() for word in self.name.split('-'))}Arn"

    @property
    def module(self) -> str:
        return f"check_{self.name.replace('-', '_')}"


def room(checks: Sequence[Check]) -> Room:
    """Read the checks' files; return the room to deploy them. Raises ValueError for a faulty file or name."""
    declared = [_declared(check) for check in checks]
    names = [one.name for one in declared]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"checks: {', '.join(twice)}: another check has this name")
    outputs = [one.output for one in declared]
    if alike := sorted(one.name for one in declared if outputs.count(one.output) > 1):
        raise ValueError(f"checks: {', '.join(alike)}: too alike, as outputs have no hyphens")
    if len(json.dumps([one.told for one in declared])) > _DECLARED_LENGTH_MAX:
        raise ValueError("checks: their names and refusals are too long for a function's variables")
    return Room(
        build=lambda core, settings: _build(core, settings, declared),
        handlers={"CheckDecided": _DECIDED} if any(one.waits for one in declared) else {},
        widens={"KycDecided": {"GetItem": (EVIDENCE,)}},
    )


def _declared(check: Check) -> _Declared:
    """Return the check's declaration, read in a process with the functions' modules."""
    words = [sys.executable, "-m", "settlement.checks.file", str(Path(check.file).absolute())]
    environment = {**os.environ, "PYTHONPATH": str(LAMBDAS), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(  # noqa: S603 (the app's own file, which its deployment runs)
            words, capture_output=True, text=True, env=environment, timeout=_SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"{check.file}: cannot be imported within {_SECONDS_MAX} s") from None
    if done.returncode:
        raise ValueError((done.stderr.strip().splitlines() or [f"{check.file}: cannot be imported"])[-1])
    told = json.loads(done.stdout.splitlines()[-1])
    return _Declared(check=check, **told)


class Checks(Construct):
    def __init__(self, core: Core, settings: WebhookSettings, declared: Sequence[_Declared]) -> None:
        super().__init__(core.scope, "Checks")
        verify, decided = core.functions["VerifyKyc"], core.functions.get("CheckDecided")
        folder = str(_bundle(declared, settings))
        code = assets.Asset(self, "Code", path=folder)
        _replace_code(verify, code)
        # With `cdk synth --no-staging`, the template refers to the folder.
        if code.asset_path != folder:
            shutil.rmtree(folder)
        verify.add_environment("CHECKS", self._described(declared))
        names = json.dumps([one.name for one in declared if not one.check.retired])
        for function in core.functions.values():  # any may claim
            function.add_environment("CHECK_NAMES", names)
        for machine in (core.express, core.standard):
            _let_stall(machine)
        for one in declared:
            for secret in one.check.secrets.values():
                secret.grant_read(verify)
            for statement in one.check.statements:
                verify.add_to_role_policy(statement)
        told = [one.told for one in declared]
        self.outputs = {"StageChecks": json.dumps(told)}
        if decided:
            core.let_ask_recovery(decided)
            decided.add_environment("CHECKS_DECLARED", json.dumps(told))
            webhook = Webhook(
                self,
                "Callbacks",
                receiver=Receiver(
                    function=decided,
                    name="checks",
                    path="/{check}",
                    alarm="CheckCallbackRefused",
                    described="Many callbacks of checks are refused: a wrong secret, or strangers.",
                ),
                pager=core.pager,
                settings=settings,
            )
            self.outputs["CheckCallbackUrl"] = webhook.url
            self._add_signing(decided, [one for one in declared if one.waits], settings)
        self._add_alarms(core)

    def _described(self, declared: Sequence[_Declared]) -> str:
        described = [
            {
                "module": f"{_PACKAGE}.{one.module}",
                "secrets": {name: secret.secret_arn for name, secret in one.check.secrets.items()},
            }
            for one in declared
        ]
        return Stack.of(self).to_json_string(described)

    def _add_signing(
        self, decided: lambda_.Function, waiting: Sequence[_Declared], settings: CoreSettings
    ) -> None:
        """Create a secret per check, so one check's sender cannot decide for another check."""
        arns = {}
        for one in waiting:
            secret = secretsmanager.CfnSecret(
                self,
                f"Signing-{one.name}",
                generate_secret_string=secretsmanager.CfnSecret.GenerateSecretStringProperty(
                    secret_string_template=json.dumps({"previous": None}),
                    generate_string_key="current",
                    exclude_characters=string.punctuation,  # a signing key must be base64
                    password_length=44,
                ),
            )
            secret.apply_removal_policy(settings.removal_policy)
            arns[one.name] = secret.attr_id
            decided.add_to_role_policy(
                iam.PolicyStatement(actions=["secretsmanager:GetSecretValue"], resources=[secret.attr_id])
            )
            self.outputs[one.output] = secret.attr_id
        decided.add_environment("CHECK_SIGNING_SECRETS", Stack.of(self).to_json_string(arns))

    def _add_alarms(self, core: Core) -> None:
        core.pager.alarm(
            "CheckUnavailable",
            core.pager.metric("CheckUnavailable"),
            "A check gives no valid answer: its payments wait, and are reversed at their deadline.",
            threshold=5,
            urgency=Urgency.MORNING,
        )
        core.pager.alarm(
            "CheckConflict",
            core.pager.metric("CheckConflict"),
            "A callback contradicts a check's answer on record.",
            urgency=Urgency.MORNING,
        )


def _bundle(declared: Sequence[_Declared], settings: CoreSettings) -> Path:
    folder = Path(mkdtemp(prefix="checks-"))
    left_out = ["__pycache__"] if settings.is_embedded else ["__pycache__", "bootstrap"]
    shutil.copytree(LAMBDAS, folder, ignore=shutil.ignore_patterns(*left_out), dirs_exist_ok=True)
    package = folder / _PACKAGE
    package.mkdir()
    (package / "__init__.py").touch()
    for one in declared:
        shutil.copy(one.check.file, package / f"{one.module}.py")
    return folder


def _replace_code(function: lambda_.Function, code: assets.Asset) -> None:
    resource: Any = function.node.default_child
    resource.code = lambda_.CfnFunction.CodeProperty(s3_bucket=code.s3_bucket_name, s3_key=code.s3_object_key)


def _let_stall(machine: SettlementMachine) -> None:
    """Let a payment stall if VerifyKyc does not answer: a check may have killed or delayed it.

    Recovery resumes the payment until its deadline. A saga without checks reverses it instead. Only this
    project's errors still reverse it: their names, unlike AWS's, have no dot.
    """
    resource: Any = machine.node.default_child
    definition = json.loads(resource.definition_string)
    for catch in definition["States"]["VerifyKyc"]["Catch"][:-1]:  # the last has States.ALL
        catch["ErrorEquals"] = [error for error in catch["ErrorEquals"] if "." not in error]
    resource.definition_string = json.dumps(definition)


def _build(core: Core, settings: WebhookSettings, declared: Sequence[_Declared]) -> Added:
    part = Checks(core, settings, declared)
    names = [f"Check.{one.name}.{answer}" for one in declared for answer in _ANSWERS]
    return Added(outputs=part.outputs, graphs={"kyc": {"Answers of the checks": core.pager.metrics(*names)}})
