import json
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.local import constructs, needs_extra
from settle.stack import sagas_of


def findings(stage: str, context: list[str]) -> list[dict[str, Any]]:
    """Check the AWS account for a stage with the context's settings. Raises CommandFailed."""
    config, plan = constructs.module("preflight", "config"), constructs.module("preflight", "preflight.plan")
    try:
        settings = config.settings_of({"stage": stage} | dict(map(_pair, context)))
    except ValueError as wrong:
        raise CommandFailed(Exit.USAGE, str(wrong)) from wrong
    if settings.is_embedded:
        raise CommandFailed(Exit.USAGE, f"stage: {stage} runs on the embedded AWS, and needs no account")
    return _findings(_session(), plan.of_settings(settings))


def findings_of_app(app: str, stack: str | None, context: list[str]) -> list[dict[str, Any]]:
    """Check the AWS account for a saga in a user's app. Raises CommandFailed.

    `app` is the command that synthesises it, or the folder of its synthesis.
    """
    plan, session = constructs.module("preflight", "preflight.plan"), _session()
    with TemporaryDirectory() as folder:
        out = Path(app) if Path(app).is_dir() else Path(folder)
        if out != Path(app):
            options = [word for one in context for word in ("-c", "=".join(_pair(one)))]
            with needs_extra("preflight"):
                from settle.local import deployment
            deployment.synth(app, Path.cwd(), out, *options)
        templates = _templates(out)
    sagas = {
        f"{name}/{saga}" if saga else name: (template, name, saga)
        for name, template in templates.items()
        for saga in sagas_of(template.get("Outputs", ()))
    }
    if not sagas:
        raise CommandFailed(Exit.NOT_FOUND, f"app: {app} has no saga")
    chosen = stack or (next(iter(sagas)) if len(sagas) == 1 else "")
    if chosen not in sagas:
        raise CommandFailed(
            Exit.USAGE, f"stack: pass --stack {' or '.join(sorted(sagas))}, a saga of the app"
        )
    return _findings(session, plan.of_template(*sagas[chosen]))


def _templates(folder: Path) -> dict[str, Any]:
    found = {}
    for manifest in (*folder.glob("manifest.json"), *folder.rglob("assembly-*/manifest.json")):
        for name, one in json.loads(manifest.read_text("utf-8")).get("artifacts", {}).items():
            if one["type"] == "aws:cloudformation:stack":
                properties = one["properties"]
                file = manifest.parent / properties["templateFile"]
                found[properties.get("stackName", name)] = json.loads(file.read_text("utf-8"))
    return found


def _session() -> Any:
    ours = constructs.module("preflight", "account").session()
    if ours.region_name is None:
        raise CommandFailed(Exit.USAGE, "region: name one, by AWS_REGION or by the profile")
    return ours


def _findings(session: Any, plan: Any) -> list[dict[str, Any]]:
    account = constructs.module("preflight", "preflight.finding").Account(session, plan)
    found = constructs.module("preflight", "preflight.checks").findings(account)
    return [asdict(one) | {"verdict": one.verdict.value} for one in found]


def _pair(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not (name and equals):
        raise CommandFailed(Exit.USAGE, f"context: must be NAME=VALUE, as for cdk deploy: {given}")
    return name, value
