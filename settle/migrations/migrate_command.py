from typing import Annotated

import typer

from settle.commands.options import AsJson, StackName, find

app = typer.Typer(no_args_is_help=True, help="A change of finished rows, while payments are in flight.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The migration, as the changelog names it.")]
Back = Annotated[bool, typer.Option("--back", help="Go back to the previous layout.")]


@app.command("plan")
def plan(name: Name, back: Back = False, stack: StackName = None, as_json: AsJson = False) -> None:
    """Count the rows that a migration would change. Exit code 1: a deployment must come first.

    It reads the whole table, and writes nothing.

    Example: settle migrate plan parts-by-name --stack settlement-prod
    """
    from settle.exit_codes import Exit
    from settle.migrations import migration as queries
    from settle.migrations import migration_output as shown
    from settle.migrations.reach import named
    from settle.migrations.rows import Direction

    direction = Direction.BACK if back else Direction.FORWARD
    told = queries.plan(find(stack), named(name), direction)
    shown.plan(told, as_json)
    if told["obstacles"]:
        raise typer.Exit(Exit.FAILED)


@app.command("run")
def run(
    name: Name,
    back: Back = False,
    units_per_second: Annotated[
        float, typer.Option(min=1, max=10_000, metavar="UNITS", help="Maximum write units a second.")
    ] = 50,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Change the finished rows, as the only runner. Exit code 1: the run is paused.

    It resumes an earlier run. It pauses if DynamoDB throttles or an alarm of the stack is on. Run it again
    afterwards. It may be killed at any time; another run can continue 30 s later.

    Example: settle migrate run parts-by-name --units-per-second 200 --stack settlement-prod
    """
    from settle.exit_codes import CommandFailed, Exit
    from settle.migrations import migration as queries
    from settle.migrations import migration_output as shown
    from settle.migrations import reach
    from settle.migrations.rows import Direction, Phase
    from settle.migrations.runner import NotAlone

    direction, found, migration = (
        Direction.BACK if back else Direction.FORWARD,
        find(stack),
        reach.named(name),
    )
    if obstacles := queries.obstacles(found, migration, direction):
        raise CommandFailed(Exit.FAILED, "; ".join(obstacles))
    try:
        progress = reach.run(found, migration, direction, units_per_second, shown.note_progress)
    except NotAlone as other:
        raise CommandFailed(Exit.CONFLICT, str(other)) from None
    shown.progress(progress, as_json)
    if progress.phase is not Phase.DONE:
        raise typer.Exit(Exit.FAILED)


@app.command("pause")
def pause(
    name: Name,
    reason: Annotated[
        str, typer.Option(help="The reason, for the person who runs it next.")
    ] = "a person paused it",
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Stop the runner of a migration within ten seconds.

    Example: settle migrate pause parts-by-name --stack settlement-prod
    """
    from settle.exit_codes import CommandFailed, Exit
    from settle.migrations import migration_output as shown
    from settle.migrations import reach
    from settle.migrations.runner import pause

    found, migration = find(stack), reach.named(name)
    progress = pause(reach.means(found, migration, 1, lambda _: None), migration, reason)
    if progress is None:
        raise CommandFailed(Exit.NOT_FOUND, f"migration {name}: was never begun in {found.name}")
    shown.progress(progress, as_json)


@app.command("verify")
def verify(name: Name, back: Back = False, stack: StackName = None, as_json: AsJson = False) -> None:
    """Find rows that a migration left out or changed wrongly. Exit code 1: there are some.

    It parses each changed row as the functions do, and compares it with its evidence. It writes nothing.

    Example: settle migrate verify parts-by-name --stack settlement-prod
    """
    from settle.exit_codes import Exit
    from settle.migrations import migration as queries
    from settle.migrations import migration_output as shown
    from settle.migrations.reach import named
    from settle.migrations.rows import Direction

    direction = Direction.BACK if back else Direction.FORWARD
    told = queries.verify(find(stack), named(name), direction)
    shown.verified(told, as_json)
    if told["left"] or told["faults"]:
        raise typer.Exit(Exit.FAILED)
