from pathlib import Path
from typing import Annotated

import typer

from settle.commands.options import AsCsv, AsJson, AsSheet, Reason, StackName, find, is_csv
from settle.exit_codes import CommandFailed, Exit
from settle.output import console

app = typer.Typer(no_args_is_help=True, help="Pay runs: many payments of one file, approved by others.")

Run = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, or its name if it is the only one.")]
Digest = Annotated[
    str | None, typer.Option(help="The digest of what you were shown, as settle payrun status prints it.")
]
Numbers = Annotated[list[int] | None, typer.Option(metavar="LINE", help="A line; repeat the option.")]


@app.command("propose")
def propose(
    *,
    sheet_file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="A spreadsheet as CSV, or JSON lines; - reads standard input."),
    ],
    name: Annotated[str, typer.Option(help="The run's name, such as sellers-2026-11.")],
    payer: Annotated[str, typer.Option(help="The account that pays.")],
    reason: Reason,
    payouts: Annotated[bool, typer.Option("--payouts", help="Pay to bank accounts of the payer.")] = False,
    currency: Annotated[
        str | None, typer.Option(help="The currency of a file without such a column.")
    ] = None,
    payer_name: Annotated[str | None, typer.Option(help="The payer's name, for the KYC check.")] = None,
    leave_out: Numbers = None,
    repeat: Numbers = None,
    parent: Annotated[
        str | None, typer.Option(metavar="RUN", help="The run whose refused lines are mended here.")
    ] = None,
    check_only: Annotated[bool, typer.Option("--check", help="Check alone: propose nothing.")] = False,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Check every line of a file, show the sums, and propose it as a run. Another person approves it.

    Columns: payee (with --payouts: destination), amount, currency, payee_name, reference. Nothing is proposed
    unless each line is right or left out. The same file again is the same run. Exit code 2: faulty lines.

    Example: settle payrun propose sellers.csv --name sellers-2026-11 --payer shop --reason "November"
    """
    from settle import instants
    from settle.payruns import checking, payrun_output, proposing, sheet
    from settlement.payruns.file import NAME, Header, Kind

    if not NAME.fullmatch(name):
        raise CommandFailed(Exit.USAGE, f"name: must match ^{NAME.pattern}$")
    kind = Kind.PAYOUTS if payouts else Kind.PAYMENTS
    target = find(stack)
    found = sheet.read(
        sheet_file, kind, target.config, currency=currency, leave_out=frozenset(leave_out or ())
    )
    repeats = tuple(sorted({*(repeat or ())}))
    header = Header(name=name, kind=kind, payer=payer, payer_name=payer_name, parent=parent, repeats=repeats)
    checked = checking.check(target, found, header, instants.now())
    payrun_output.checked(target, checked, as_json, more=found.more, is_answer=check_only)
    if checked.problems:
        raise CommandFailed(
            Exit.USAGE, f"{len(checked.problems) + found.more} faults: nothing was proposed; mend the file"
        )
    if not check_only:
        payrun_output.run(proposing.propose(target, checked, reason), as_json)


@app.command("status")
def status(run: Run, stack: StackName = None, as_json: AsJson = False) -> None:
    """Show a run: its proposal, approvals, progress, outcomes, and the next commands.

    Exit code 0: finished; 7: not yet.

    Example: settle payrun status sellers-2026-11 --stack settlement-prod
    """
    from settle.payruns import on_record, payrun_output

    target = find(stack)
    one = on_record.find(target, run)
    told = on_record.shown(target, one, on_record.file_of(target, one.proposal))
    payrun_output.run(told, as_json)
    raise typer.Exit(payrun_output.code_of(told))


@app.command("list")
def list_runs(stack: StackName = None, as_json: AsJson = False) -> None:
    """List all runs, the latest first. Exit code 1: unreadable rows, which it names.

    Example: settle payrun list --stack settlement-prod
    """
    from settle.payruns import on_record, payrun_output

    target, unreadable = find(stack), dict[str, str]()
    lines = [on_record.line_of(target, one) for one in on_record.every(target, unreadable)]
    payrun_output.listed(lines, as_json)
    console.name_unreadable([{"unreadable": one} for one in unreadable.values()])


@app.command("approve")
def approve(run: Run, digest: Digest = None, stack: StackName = None, as_json: AsJson = False) -> None:
    """Approve another person's run, as you were shown it. Its file is compared first. Safe to repeat.

    Example: settle payrun approve sellers-2026-11 --digest 5c0d… --stack settlement-prod
    """
    _order("approve", run, digest, stack, as_json)


@app.command("run")
def run_it(run: Run, digest: Digest = None, stack: StackName = None, as_json: AsJson = False) -> None:
    """Pay an approved run's lines, or go on with a paused one. Safe to repeat.

    Example: settle payrun run sellers-2026-11 --digest 5c0d… --stack settlement-prod
    """
    _order("run", run, digest, stack, as_json)


@app.command("pause")
def pause(run: Run, digest: Digest = None, stack: StackName = None, as_json: AsJson = False) -> None:
    """Begin no more lines until the run is resumed. At most 40 lines have begun. Safe to repeat.

    Example: settle payrun pause sellers-2026-11 --digest 5c0d… --stack settlement-prod
    """
    _order("pause", run, digest, stack, as_json)


@app.command("cancel")
def cancel(run: Run, digest: Digest = None, stack: StackName = None, as_json: AsJson = False) -> None:
    """Begin no more lines, for ever. Lines that have begun are paid. Safe to repeat.

    Example: settle payrun cancel sellers-2026-11 --digest 5c0d… --stack settlement-prod
    """
    _order("cancel", run, digest, stack, as_json)


@app.command("wait")
def wait(
    run: Run,
    timeout: Annotated[int, typer.Option(min=1, help="Seconds to wait.")] = 3_600,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Wait until a run has ended, and show its progress, rate and time left. Exit codes as for status.

    Example: settle payrun wait sellers-2026-11 --timeout 600 --stack settlement-prod
    """
    from settle.output.progress import progress
    from settle.payruns import payrun_output, waiting

    target = find(stack)
    with progress() as tell:
        told = waiting.until_over(target, run, timeout, tell)
    payrun_output.run(told, as_json)
    raise typer.Exit(payrun_output.code_of(told))


@app.command("results")
def results(
    run: Run,
    stack: StackName = None,
    as_csv: AsCsv = False,
    as_sheet: AsSheet = False,
    as_json: AsJson = False,
) -> None:
    """Show each line's outcome now, its key and its next action.

    Exit code 1: unreadable rows, which it names.

    Example: settle payrun results sellers-2026-11 --spreadsheet --stack settlement-prod > results.csv
    """
    from settle.output import sheet
    from settle.payruns import on_record, payrun_output
    from settle.payruns import results as found

    csv = is_csv(as_csv, as_sheet, as_json)
    target = find(stack)
    one = on_record.find(target, run)
    lines = list(found.lines(target, one, on_record.file_of(target, one.proposal)))
    if csv:
        sheet.show([lines], found.FIELDS, ("line", "amount"), guarded=as_sheet)
    else:
        payrun_output.results(lines, as_json)
    console.name_unreadable(found.unreadable(lines))


@app.command("report")
def report(
    run: Run,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The file to write; by default RUN.html."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    show: Annotated[bool, typer.Option("--open", help="Also show the page in the browser.")] = False,
    stack: StackName = None,
) -> None:
    """Write a page about a run, with each line's outcome: one self-contained HTML file.

    Prints the file's path. Only --force replaces an existing file.

    Example: settle payrun report sellers-2026-11 -o run.html --stack settlement-prod
    """
    from settle import instants
    from settle.payruns import on_record, payrun_pages
    from settle.reports.page import file, render
    from settlement.core.model.timestamps import timestamp

    target = find(stack)
    one = on_record.find(target, run)
    path = output or Path(f"{one.state.run}.html")
    file.ensure_can_write(path, force)
    template, values = payrun_pages.described(target, one)
    file.write(path, render.page(template, None, timestamp(instants.now()), **values), force)
    console.print_line(str(path))
    if show:
        typer.launch(str(path.resolve()))


def _order(verb: str, run: str, digest: str | None, stack: str | None, as_json: bool) -> None:
    from settle import instants
    from settle.payruns import deciding, payrun_output

    payrun_output.run(deciding.order(find(stack), verb, run, digest, instants.now()), as_json)
