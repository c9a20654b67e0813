from typing import Annotated

import typer

from settle.commands.options import AsJson
from settle.exit_codes import CommandFailed, Exit


def explain(
    error: Annotated[str, typer.Argument(help="An error's name, as in `failure` or a log line.")],
    as_json: AsJson = False,
) -> None:
    """Explain an error: its meaning, who acts and how, and the page about it. It needs no stack.

    Example: settle explain InsufficientFunds
    """
    from difflib import get_close_matches

    from settle import explanations
    from settle.output.console import print_record

    by_name = {name.lower(): one for name, one in explanations.every().items()}
    found = by_name.get(error.lower())
    if found is None:
        close = [by_name[name].error for name in get_close_matches(error.lower(), by_name, cutoff=0.5)]
        hint = f"do you mean {' or '.join(close)}?" if close else "docs/reference/errors.md has all names"
        raise CommandFailed(Exit.NOT_FOUND, f"error: no error has the name {error[:100]}; {hint}")
    told = {
        "error": found.error,
        "meaning": found.meaning,
        "same_call": {True: "is refused again", False: "may succeed", None: None}[found.is_final],
        "who_acts": found.who,
        "what_to_do": found.act,
        "page": f"docs/{found.page}",
    }
    print_record(told, as_json)
