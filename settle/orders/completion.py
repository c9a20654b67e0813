from typing import Annotated, Any

import typer

from settle.arguments import check_key
from settle.commands.options import find

CASES_MAX = 50

Offered = list[tuple[str, str]]
"""Completions: words, each with the hint that a shell shows."""


def stuck_keys(context: typer.Context, incomplete: str) -> Offered:
    """Return keys of open cases. Without an answer from the stack, return none.

    The stack is the `--stack` typed before the key, or the embedded stack.
    """
    from settle.orders import limbo

    try:
        cases, _ = limbo.open_cases(find(context.params.get("stack")), CASES_MAX)
    except Exception:  # a person who presses Tab has no use for an error
        return []
    return [
        (one["key"], one.get("unreadable") or f"{one['amount_at_risk']} {one['currency']}, {one['error']}")
        for one in cases
        if one["key"].startswith(incomplete)
    ]


def keys_then_decisions(context: typer.Context, incomplete: str) -> Offered:
    """Complete the first word with keys or decisions, the second with decisions."""
    from settlement.core.model.orders import Decision

    words: Any = context.params.get("words")
    decisions = [(one.value, "") for one in Decision if one.value.startswith(incomplete)]
    return decisions if words else [*stuck_keys(context, incomplete), *decisions]


StuckKey = Annotated[
    str,
    typer.Argument(callback=check_key, autocompletion=stuck_keys, help="The settlement's idempotency key."),
]
