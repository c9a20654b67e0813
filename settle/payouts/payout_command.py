import re
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from settle.arguments import check_customer, check_key
from settle.commands.in_turn import Answered, in_turn
from settle.commands.options import AsJson, Reason, StackName, find
from settle.exit_codes import CommandFailed, Exit
from settle.output import console
from settle.reports.report_command import Force, Show, write
from settlement.payouts.decision import Verdict

app = typer.Typer(no_args_is_help=True, help="Payouts to bank accounts.")

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


def _digest(text: str | None) -> str | None:
    if text is not None and not _DIGEST.fullmatch(text):
        told = "digest: must be all 64 digits, as settle payout status prints them"
        raise CommandFailed(Exit.USAGE, told)
    return text


Key = Annotated[str, typer.Argument(callback=check_key, help="The payout's idempotency key.")]
Proposed = Annotated[Verdict, typer.Argument(help="The verdict, one that the case allows.")]
Case = Annotated[int | None, typer.Option(min=1, help="The number of the shown case.")]
Digest = Annotated[
    str | None, typer.Option(callback=_digest, help="The digest of what you were shown, all 64 digits.")
]
Contradicts = Annotated[
    bool,
    typer.Option(
        "--contradicts", help="The bank's last word is wrong, or the bank stays silent, and you know better."
    ),
]

Other = Annotated[
    str | None,
    typer.Option(
        "--account",
        callback=lambda account: None if account is None else check_customer(account),
        help="For give-back: the customer's other account, which gets the money.",
    ),
]


@app.command("start")
def start(
    file: Annotated[
        str, typer.Argument(help="A file with a payout, or one on each line; - reads standard input.")
    ],
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Start a file's payouts, one after the other. Safe to repeat: a payout is started once.

    A payout has key, account, amount, currency and destination. Checks every line before it sends the first.
    Exit code 7: under way, as most payouts take days; 4: one is refused. The gravest code wins.

    Example: settle payout start payouts.jsonl --stack settlement-prod
    """
    from settle.order import OrderRefused
    from settle.payouts import paying, payout_file, payout_output
    from settle.payouts.payout import code_of

    given = payout_file.read(file)
    target = find(stack)
    payouts = payout_file.checked(given, target.config)

    def answer(payout: dict[str, Any]) -> Answered:
        try:
            told = paying.pay(target, payout)
            code, note = code_of(told), told["status"]
        except OrderRefused as refused:
            told = {"key": payout["key"], "error": refused.error, "message": refused.reason}
            code, note = refused.code, refused.error
        show = partial(payout_output.started, told, as_json)
        return Answered(code, f"{payout['key']}: {note}", show)

    in_turn(payouts, answer, "payouts are answered")


@app.command("status")
def status(key: Key, stack: StackName = None, as_json: AsJson = False) -> None:
    """Show a payout: its state, entries and open case, with each verdict's effect and command.

    Exit code 0: paid; 4: refused, or returned; 7: under way; 5: a case waits for two persons.

    Example: settle payout status payout-2026-000101 --stack settlement-prod
    """
    from settle.payouts import payout, payout_output

    told = payout.describe(find(stack), key)
    payout_output.payout(told, as_json)
    console.name_unreadable([{"unreadable": one} for one in told["unreadable"]])
    raise typer.Exit(payout.code_of(told))


@app.command("list")
def list_payouts(
    cases: Annotated[bool, typer.Option("--cases", help="Cases that wait for two persons.")] = False,
    lines: Annotated[
        bool, typer.Option("--lines", help="The bank's lines that name a payout and were refused.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="Maximum to show.")] = 100,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """List the payouts under way, soonest look first; or the open cases, or the refused lines.

    Exit code 1: unreadable rows, which it names.

    Example: settle payout list --cases --stack settlement-prod
    """
    if cases and lines:
        raise CommandFailed(Exit.USAGE, "list: give one of --cases and --lines")

    from settle.payouts import listing, payout_output

    if cases:
        read, fields, nothing = listing.cases, listing.CASES, "no payout has an open case"
    elif lines:
        read, fields, nothing = listing.refused_lines, listing.LINES, "no line of the bank is refused"
    else:
        read, fields, nothing = listing.under_way, listing.UNDER_WAY, "no payout is under way"
    found = read(find(stack), limit)
    payout_output.listed(found.lines, as_json, fields, nothing)
    if found.more:
        console.note(f"there are more than these {limit}; see more of them with --limit")
    console.name_unreadable(found.lines)


@app.command("ask")
def ask(key: Key, stack: StackName = None, as_json: AsJson = False) -> None:
    """Look at a payout now: ask the bank, or carry an approved verdict out. Safe to repeat.

    Exit codes are as for `settle payout status`.

    Example: settle payout ask payout-2026-000101 --stack settlement-prod
    """
    from settle.payouts import deciding, payout_output
    from settle.payouts.payout import code_of

    told = deciding.ask(find(stack), key)
    payout_output.payout(told, as_json)
    raise typer.Exit(code_of(told))


@app.command("report")
def report(
    key: Key,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The file to write; by default KEY.html."),
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Leave out the bank account, names of persons and reasons.")
    ] = False,
    force: Force = False,
    show: Show = False,
    stack: StackName = None,
) -> None:
    """Write a page about a payout: one self-contained HTML file, with its rows.

    Prints the file's path. Only --force replaces an existing file.

    Example: settle payout report payout-2026-000101 -o payout.html --redact --stack settlement-prod
    """
    from settle import instants
    from settle.payouts import payout_report
    from settle.reports.page import file, render

    path = output or Path(f"{key}.html")
    file.ensure_can_write(path, force)
    template, values = payout_report.describe(find(stack), key, instants.now(), redact=redact)
    write(path, render.page(template, None, values["report"]["at"], **values), force, show)


@app.command("propose")
def propose(
    *,
    key: Key,
    verdict: Proposed,
    reason: Reason,
    case: Case = None,
    digest: Digest = None,
    account: Other = None,
    contradicts: Contradicts = False,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Propose a verdict about a payout's open case. Safe to repeat. Another person approves it.

    Without --digest, it is about the payout as it is read now, which is shown.

    Example: settle payout propose payout-2026-000101 not-paid --reason "the bank's letter of today"
    """
    from settle.payouts import deciding, payout_output

    order = _order(key, verdict, reason, account, contradicts=contradicts)
    told = deciding.propose(find(stack), order | {"case": case, "digest": digest})
    payout_output.proposed(told, as_json)


@app.command("approve")
def approve(
    *,
    key: Key,
    verdict: Proposed,
    reason: Reason,
    case: Case = None,
    digest: Digest = None,
    account: Other = None,
    contradicts: Contradicts = False,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Approve another person's proposal, and have it carried out. Safe to repeat.

    Paste the command that `settle payout status` prints: the stage refuses it if anything shown has changed.
    Exit code 0: done; 7: within a minute; 5: the case is open, the bank is silent or says another thing.

    Example: settle payout approve payout-2026-000101 not-paid --case 1 --digest $DIGEST --reason "I called"
    """
    if case is None or digest is None:
        raise CommandFailed(
            Exit.USAGE,
            "approve: give --case and --digest: paste the command that settle payout status prints",
        )

    from settle.payouts import deciding, payout_output

    order = _order(key, verdict, reason, account, contradicts=contradicts)
    told = deciding.approve(find(stack), order | {"case": case, "digest": digest})
    payout_output.approved(told, as_json)
    if "payout" not in told:
        raise typer.Exit(Exit.IN_FLIGHT)
    raise typer.Exit(Exit.LIMBO if "case" in told["payout"] else Exit.FINE)


def _order(
    key: str, verdict: Verdict, reason: str, account: str | None, *, contradicts: bool
) -> dict[str, Any]:
    optional: dict[str, Any] = {} if account is None else {"account": account}
    optional |= {"contradicts": True} if contradicts else {}
    return {"key": key, "verdict": verdict.value, "reason": reason, **optional}
