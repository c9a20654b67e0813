import os
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.local import needs_extra
from settle.local.record import CONSTRUCTS


def findings(stage: str, context: list[str]) -> list[dict[str, Any]]:
    """Return the findings of a stage's checks, with settings from the context. Raises CommandFailed."""
    os.environ.setdefault("JSII_NODE", str(Path(sys.executable).with_name("node")))  # from `make setup`
    with needs_extra("preflight"):
        account, config, checks, finding = (
            import_module(f"{CONSTRUCTS}.{name}")
            for name in ("account", "config", "preflight.checks", "preflight.finding")
        )

    try:
        settings = config.settings_of({"stage": stage} | dict(_pair(one) for one in context))
    except ValueError as wrong:
        raise CommandFailed(Exit.USAGE, str(wrong)) from wrong
    if settings.is_embedded:
        raise CommandFailed(Exit.USAGE, f"stage: {stage} runs on the embedded AWS, and needs no account")
    ours = account.session()
    if ours.region_name is None:
        raise CommandFailed(Exit.USAGE, "region: name one, by AWS_REGION or by the profile")
    return [
        asdict(one) | {"verdict": one.verdict.value}
        for one in checks.findings(finding.Account(ours, settings))
    ]


def _pair(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not (name and equals):
        raise CommandFailed(Exit.USAGE, f"context: must be NAME=VALUE, as for cdk deploy: {given}")
    return name, value
