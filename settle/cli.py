"""The `settle` command: every subcommand finds the stack, makes one call and prints the answer."""

import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from botocore.exceptions import BotoCoreError, ClientError

from settle import (
    accounts,
    decisions,
    demo,
    journal,
    kyc,
    ledger,
    limbo,
    local,
    outage,
    reconcile,
    show,
    walkthrough,
)
from settle.cli_flight import AsJson, StackName
from settle.cli_flight import app as flight_app
from settle.failures import CommandFailed, Exit
from settle.stack import Stack, embedded, find
from settle.starting import Machine, key_of, start, start_code, status_code
from settlement import money
from settlement.errors import SettlementError
from settlement.resolution import Decision
from settlement.status import Status

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, help="Operate the settlement saga.")
local_app = typer.Typer(no_args_is_help=True, help="The embedded local AWS.")
account_app = typer.Typer(no_args_is_help=True, help="Customers' accounts.")
app.add_typer(flight_app)
app.add_typer(local_app, name="local")
app.add_typer(account_app, name="account")
limbo_app = typer.Typer(no_args_is_help=True, help="Settlements that wait for a person's decision.")
app.add_typer(limbo_app, name="limbo")
kyc_app = typer.Typer(no_args_is_help=True, help="The KYC provider.")
app.add_typer(kyc_app, name="kyc")

Reason = Annotated[str, typer.Option(help="Why; goes on record with your AWS identity.")]


@local_app.command("up")
def local_up(
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Listen on this port; by default on a free one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start the embedded AWS and deploy the app to it; where that is done already, find it."""
    with show.progress() as report:
        running = local.up(report, port)
    show.record(running.describe(), as_json)


@local_app.command("down")
def local_down(as_json: AsJson = False) -> None:
    """Stop the embedded AWS; all that was on it is gone."""
    show.record({"stopped": local.down()}, as_json)


@local_app.command("status")
def local_status(as_json: AsJson = False) -> None:
    """Tell where the embedded AWS is."""
    running = local.running()
    if running is None:
        raise CommandFailed(Exit.NOT_FOUND, "the embedded AWS is not up; start it with `settle local up`")
    show.record(running.describe(), as_json)


@account_app.command("open")
def account_open(
    account: str,
    currency: Annotated[str, typer.Option(help="ISO 4217 code.")],
    deposit: Annotated[str, typer.Option(help="First deposit, a decimal string.")] = "0",
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Open a customer's account with a first deposit. Safe to repeat."""
    show.account(accounts.open_account(find(stack), account, currency, deposit), as_json)


@account_app.command("show")
def account_show(account: str, stack: StackName = None, as_json: AsJson = False) -> None:
    """Show an account's balance and statement; fees are on `fees:<CURRENCY>`."""
    show.account(accounts.show(find(stack), account), as_json)


@app.command("start")
def start_settlements(
    file: Annotated[str, typer.Argument(help="A request, or one on each line; - reads standard input.")],
    machine: Annotated[Machine, typer.Option(help="Which machine drives it.")] = Machine.EXPRESS,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Settle the requests of a file, one after the other, and wait for each.

    Every line is checked to be JSON before the first is sent. The exit code is the gravest answer's.
    """
    requests = _requests(file)
    target, codes = find(stack), []
    for request in requests:
        ended = start(target, machine, request)
        show.ended(ended, as_json)
        codes.append(start_code(ended))
    raise typer.Exit(max(codes, key=lambda code: code.gravity))


@app.command("status")
def status(key: str, stack: StackName = None, as_json: AsJson = False) -> None:
    """Show how a settlement stands and came to stand so, and whether it is safe to retry."""
    result = journal.describe(find(stack), key)
    show.settlement(result, as_json)
    raise typer.Exit(status_code(result["status"]))


@app.command("reverse")
def reverse(key: str, reason: Reason, stack: StackName = None, as_json: AsJson = False) -> None:
    """Refund a settlement, its fee included, or give up a stalled one. Safe to repeat."""
    target = find(stack)
    result = decisions.reverse(target, key, reason)
    if not decisions.is_on_record(target, key, reason):
        show.note(f"{key} was being reversed already; your reason is not on record")
    _decided(result, as_json)


@limbo_app.command("list")
def limbo_list(stack: StackName = None, as_json: AsJson = False) -> None:
    """List every settlement that waits for a decision, the oldest first."""
    show.cases(limbo.list_open(find(stack)), as_json)


@limbo_app.command("show")
def limbo_show(key: str, stack: StackName = None, as_json: AsJson = False) -> None:
    """Show what is stuck, why, and what each decision would do."""
    show.case(limbo.show(find(stack), key), as_json)


@limbo_app.command("resolve")
def limbo_resolve(
    key: str,
    decision: Decision,
    reason: Reason,
    case: Annotated[int | None, typer.Option(help="The number of the case; by default the latest.")] = None,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Decide: retry, write-off or complete. Safe to repeat."""
    _decided(decisions.resolve(find(stack), key, decision, reason, case), as_json)


@kyc_app.command("status")
def kyc_status(stack: StackName = None, as_json: AsJson = False) -> None:
    """Show how the circuit around the KYC provider stands."""
    show.record(kyc.status(find(stack)), as_json)


@app.command("reconcile")
def reconcile_all(stack: StackName = None, as_json: AsJson = False) -> None:
    """Prove from the rows alone that no money was lost or made; exit 1 and name the row otherwise."""
    proof = _proof(find(stack))
    show.findings(proof, as_json)
    if not proof["conserved"]:
        raise typer.Exit(Exit.FAILED)


@app.command("demo")
def run_demo(as_json: AsJson = False) -> None:
    """Deploy to the embedded AWS, settle the examples, undo a stuck one, outlast an outage, and reconcile."""
    with show.progress() as report:
        running = local.up(report)
        target = embedded(running)
        since = time.time()
        settled = []
        for machine in Machine:
            run = demo.new_run(machine)
            report(f"{machine}: opening {demo.open_accounts(target, run)} accounts")
            for one in demo.settle_all(target, machine, run):
                settled.append(one)
                report(f"{machine}: {one.request['key']}")
        costs = demo.costs(target, since)
        walked = walkthrough.walk(target, report)
        outlasted = outage.walk(target, running.kyc_url, report)
    proof = _proof(target)
    shown = {"limbo": walked, "outage": outlasted, "reconciliation": proof}
    show.demo(demo.describe(settled, costs) | shown, as_json)
    settled_well = all(start_code(one.ended) is not Exit.FAILED for one in settled)
    if not (settled_well and walked["conserved"] and outlasted["conserved"] and proof["conserved"]):
        raise typer.Exit(Exit.FAILED)


def _proof(target: Stack) -> dict[str, Any]:
    def render(amount: int, currency: str) -> str:
        return money.render(amount, target.terms.currencies[currency])

    return reconcile.describe(ledger.check(target), render)


def _decided(result: dict[str, Any], as_json: bool) -> None:
    """Show what a person's decision led to. It is fine unless the settlement is stuck, now or again."""
    show.record(result, as_json)
    raise typer.Exit(Exit.LIMBO if result["status"] == Status.LIMBO else Exit.FINE)


def _requests(file: str) -> list[str]:
    """The raw texts of the requests: a file that is one JSON value is one request, else each line is."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(Exit.USAGE, f"file: {error}") from error
    requests = {number: line for number, line in enumerate(text.splitlines(), 1) if line.strip()}
    with suppress(ValueError, RecursionError):
        json.loads(text)
        requests = {1: text}
    if not requests:
        raise CommandFailed(Exit.USAGE, f"file: {file} holds no request")
    for number, request in requests.items():
        try:
            key_of(request)
        except CommandFailed as failure:
            raise CommandFailed(failure.code, f"line {number}: {failure}; nothing was sent") from failure
    return list(requests.values())


def main() -> None:
    """Run the command; a failure is one line on standard error and the exit code that `Exit` gives it."""
    if any(not _is_utf8(argument) for argument in sys.argv):
        _end(Exit.USAGE, "arguments: must be UTF-8")
    try:
        app(prog_name="settle")
    except CommandFailed as failure:
        _end(failure.code, str(failure))
    except (SettlementError, ClientError, BotoCoreError, OSError) as failure:
        _end(Exit.FAILED, f"{type(failure).__name__}: {failure}")


def _is_utf8(argument: str) -> bool:
    """Python has the other bytes of an argument as half surrogate pairs, which no service takes."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def _end(code: Exit, message: str) -> Any:
    print(f"settle: {message}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
