from functools import partial
from typing import Annotated

import typer

from settle.commands.in_turn import Answered, in_turn
from settle.commands.options import AsJson, StackName, find
from settle.exit_codes import CommandFailed, Exit
from settle.output import console
from settle.settlements.machines import Machine
from settle.settlements.request_file import labelled, read_requests


def _members(given: list[str] | None) -> list[str]:
    names = [one.partition("=")[0] for one in given or ()]
    for one, name in zip(given or (), names, strict=True):
        if "=" not in one or not name:
            raise CommandFailed(Exit.USAGE, "meta: must be NAME=VALUE")
        if names.count(name) > 1:
            raise CommandFailed(Exit.USAGE, f"meta: {name} comes twice")
    return given or []


def start(
    file: Annotated[
        str, typer.Argument(help="A file with a request, or one on each line; - reads standard input.")
    ],
    machine: Annotated[Machine, typer.Option(help="The machine that runs the requests.")] = Machine.EXPRESS,
    queue: Annotated[
        bool, typer.Option("--queue", help="Send the requests to the start queue, and do not wait.")
    ] = False,
    reference: Annotated[
        str | None,
        typer.Option(help="Your own name of each payment, for its outcome. No personal data."),
    ] = None,
    meta: Annotated[
        list[str] | None,
        typer.Option(
            "--meta",
            metavar="NAME=VALUE",
            callback=_members,
            help="A text of your own for each outcome. May be repeated. No personal data.",
        ),
    ] = None,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Settle a file's requests, one after the other, and wait for each.

    Checks that every line is JSON before it sends the first.

    The exit code is the gravest answer's. 7: still in flight, as with --queue; wait with `settle wait KEY` or
    `settle events tail --key KEY`.

    Example: settle start payments.jsonl --stack settlement-prod
    """
    metadata = dict(one.split("=", 1) for one in meta or ())
    requests = [labelled(one, reference, metadata) for one in read_requests(file)]

    from settle.settlements import settlement_output
    from settle.settlements.start import send, start_code
    from settle.settlements.start import start as start_one

    target = find(stack)
    if queue:
        sent: list[str] = []
        with console.counted(sent, len(requests), "requests are in the start queue"):
            for request in requests:
                sent.append(send(target, request))
                console.note(f"{sent[-1]}: sent to the start queue")
        raise typer.Exit(Exit.IN_FLIGHT)

    def answer(request: str) -> Answered:
        ended = start_one(target, machine, request)
        show = partial(settlement_output.started, ended.describe(), as_json)
        return Answered(start_code(ended), f"{ended.key}: {ended.status}", show)

    in_turn(requests, answer, "requests are answered")
