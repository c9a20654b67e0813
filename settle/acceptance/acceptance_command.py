import re
import signal
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from settle.commands.options import AsJson, StackName, find
from settle.exit_codes import CommandFailed, Exit
from settle.output import console

TRIAL_STACK = re.compile(r"settlement-(dev|my-[a-z0-9]+)")
"""The `dev` stage and personal stages. Any other stack needs `--yes-this-is-prod`."""


def acceptance(
    stack: StackName = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="CHECK", help="Run only this check. May be repeated."),
    ] = None,
    load: Annotated[
        list[int] | None,
        typer.Option(
            "--load",
            metavar="RATE",
            min=1,
            max=1_000,
            help="Payments a second, for ten seconds, from one account. May be repeated.",
        ),
    ] = None,
    ring: Annotated[
        bool,
        typer.Option("--ring", help="Set off an alarm of each topic, and check that it arrives. It pages."),
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Also write the report as Markdown.")
    ] = None,
    prod: Annotated[
        bool, typer.Option("--yes-this-is-prod", help="Allow a stack other than `dev` or a personal one.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Test a deployed stack with payments of its own, in minutes.

    Opens accounts, deposits, pays, stops an execution, gets a reversal stuck, and withdraws the money. Pages
    on call. The stage keeps the fees. Exit code 1: a check is refuted or throttled, or the books fail.

    Example: settle acceptance --stack settlement-dev --load 10 --load 50 --load 100 -o acceptance.md
    """
    if stack is not None and not TRIAL_STACK.fullmatch(stack) and not prod:
        raise CommandFailed(
            Exit.USAGE,
            f"stack: {stack} may be prod: this moves money, and pages; confirm by --yes-this-is-prod",
        )

    from settle.acceptance import report as shown
    from settle.acceptance.checks import CHECKS, chosen
    from settle.acceptance.runner import prove
    from settle.output.progress import progress

    known = {check.name: check for check in CHECKS}
    for name in only or []:
        if name not in known:
            raise CommandFailed(Exit.USAGE, f"only: has no {name}; the checks are {', '.join(known)}")
    if output is not None and not output.parent.is_dir():
        raise CommandFailed(Exit.USAGE, f"output: there is no directory {output.parent}")
    target = find(stack)
    for ending in (signal.SIGTERM, signal.SIGHUP):  # so that it returns the money
        signal.signal(ending, signal.default_int_handler)
    with progress() as tell:
        report = prove(target, chosen(only or [], load or [], rings=ring), tell)
    is_written = console.is_written(partial(shown.printed, shown.described(report), as_json))
    if output is not None:
        output.write_text(shown.markdown(report), encoding="utf-8")
    if report.interrupted:
        raise KeyboardInterrupt
    if not (report.passed and is_written):
        raise typer.Exit(Exit.FAILED)
