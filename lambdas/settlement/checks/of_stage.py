"""The checks of a stage, read from environment variables."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module

from settlement.checks.check import Check, Declared

VARIABLE = "CHECKS"
"""Environment variable of VerifyKyc, with the checks' modules: a JSON list of {"module", "secrets"}."""

DECLARED = "CHECKS_DECLARED"
"""Environment variable of CheckDecided: a JSON list of {"name", "refusals", "wait_seconds"}."""

SIGNING = "CHECK_SIGNING_SECRETS"
"""Environment variable of CheckDecided: a JSON object with the ARN of each waiting check's signing secret."""


@dataclass(frozen=True)
class Installed:
    """A check and its own secrets. `secret_ids` maps the secrets' names to ARNs."""

    check: Check
    secret_ids: Mapping[str, str] = field(default_factory=dict)


@cache
def installed() -> Mapping[str, Installed]:
    """The checks by name, in the stage's order. Raises ValueError."""
    found: dict[str, Installed] = {}
    for one in json.loads(os.environ.get(VARIABLE, "[]")):
        check = getattr(import_module(one["module"]), "CHECK", None)
        if not isinstance(check, Check):
            raise ValueError(f"{one['module']}: CHECK: must be a Check")
        if check.name in found:
            raise ValueError(f"{one['module']}: another check has the name {check.name}")
        found[check.name] = Installed(check, one.get("secrets", {}))
    return found


def declared() -> Mapping[str, Declared]:
    told = [
        Declared(**one | {"refusals": tuple(one["refusals"])}) for one in json.loads(os.environ[DECLARED])
    ]
    return {one.name: one for one in told}


def signing_secret(name: str) -> str:
    found: str = json.loads(os.environ[SIGNING])[name]
    return found
