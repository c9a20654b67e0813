from contextlib import ExitStack
from typing import Annotated

import typer

from settle.commands.options import StackName, find
from settle.local import needs_extra


def console(
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="The port on 127.0.0.1; by default a free one.")
    ] = 0,
    show: Annotated[bool, typer.Option("--open/--no-open", help="Show the console in the browser.")] = True,
    stack: StackName = None,
) -> None:
    """Show the queue, settlements and accounts live in a browser, and decide cases of LIMBO there.

    Prints an address that opens one browser, once. Ends there or with Ctrl-C. Listens on this machine only.
    Uses your AWS identity.

    Example: settle console --no-open --stack settlement-prod
    """
    with needs_extra("console", "console"):
        from settle.console import server
        from settle.console.context import Console, shared
        from settle.console.session import Session

    from settle.output.console import note, print_line

    target = find(stack)
    with ExitStack() as until_the_end:

        def announce(address: str) -> None:
            print_line(address)
            note("the address opens one browser, once, within 10 minutes; Ctrl-C ends the console")
            if show:
                typer.launch(str(until_the_end.enter_context(server.door_page(address))))

        server.serve(Console(shared(target), Session()), port, announce)
