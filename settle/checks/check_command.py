import shlex
from pathlib import Path
from typing import Annotated

import typer

from settle.commands.options import AsJson, Key, StackName, find
from settle.exit_codes import CommandFailed, Exit
from settle.output import console

app = typer.Typer(no_args_is_help=True, help="A stage's own checks of payments.")

Seeds = Annotated[int, typer.Option(min=1, max=1_000_000, help="How many lives to play.")]
First = Annotated[int, typer.Option("--from", min=0, help="The first seed, to see one life again.")]


@app.command("list")
def list_checks(stack: StackName = None, as_json: AsJson = False) -> None:
    """List a stack's checks, in their order.

    Example: settle check list --stack settlement-prod
    """
    from settle.checks import of_stack

    found = of_stack.declared(find(stack))
    if as_json:
        console.print_json(found)
        return
    lines = [one | {"refusals": ", ".join(one["refusals"])} for one in found]
    console.print_table(lines, ("name", "refusals", "wait_seconds"), right=("wait_seconds",))


@app.command("status")
def status(key: Key, stack: StackName = None, as_json: AsJson = False) -> None:
    """Show each check's answer about a payment, or until when the payment waits for it.

    Example: settle check status order-2026-000101 --stack settlement-prod
    """
    from settle.checks import of_stack

    found = of_stack.answers(find(stack), key)
    if as_json:
        console.print_json(found)
        return
    console.print_table(found, ("check", "decision", "reason", "by_way", "posted_at", "waits_until"))


@app.command("new")
def new(
    name: Annotated[str, typer.Argument(help="The check's name, such as release-when-delivered.")],
    waits: Annotated[bool, typer.Option("--waits", help="One that waits for a callback.")] = False,
) -> None:
    """Write a check and its test into this folder. Existing files stay unchanged.

    Example: settle check new delivered --waits
    """
    from settle.checks import template

    for file in template.write(name, Path.cwd(), waits=waits):
        console.note(f"wrote {file}")


@app.command("prove")
def prove(
    file: Annotated[Path, typer.Argument(help="The Python file with the CHECK.")],
    seeds: Seeds = 1_000,
    first: First = 0,
    as_json: AsJson = False,
) -> None:
    """Play many lives of a check, with faults. Show each broken promise with its seed.

    A check that is asked again must give the same answer, in every environment and at any time. Exit code 1:
    a promise is broken.

    Example: settle check prove delivered.py --seeds 1000
    """
    from settle.checks import proving

    try:
        proof = proving.prove(file, seeds, first)
    except ValueError as fault:
        raise CommandFailed(Exit.USAGE, str(fault)) from None
    refused = ", ".join(f"{reason} {number}" for reason, number in sorted(proof.refused.items()))
    shown = {
        "check": proof.check.name,
        "lives": proof.seeds,
        "approved": proof.approved,
        "refused": refused or "0",
        "waited": proof.waited,
        "not met": ", ".join(proof.unseen) or "nothing",
        "broken": [f"seed {one.seed}: {one.promise}: {one.detail}" for one in proof.found],
    }
    console.print_record(shown, as_json)
    if proof.found:
        again = shlex.join(
            ["settle", "check", "prove", str(file), "--seeds", "1", "--from", str(proof.found[0].seed)]
        )
        raise CommandFailed(
            Exit.FAILED, f"{proof.check.name}: promises broken: {len(proof.found)}; again: {again}"
        )
