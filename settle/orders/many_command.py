"""Decides many cases of LIMBO at once: as a dry run, or with the dry run's digest."""

import re
from functools import partial
from typing import Annotated, NoReturn

import typer

from settle.arguments import check_account, check_key
from settle.commands.options import find
from settle.exit_codes import CommandFailed, Exit
from settle.orders.completion import keys_then_decisions
from settle.output import console
from settlement.core.model.orders import REVERSE, Decision
from settlement.orders.requests import REVERSE_PART

_SEEN = re.compile(r"[1-9]\d{0,8}-[0-9a-f]{64}", re.ASCII)
PROPOSABLE = (*Decision, REVERSE, REVERSE_PART)

OfAccount = Annotated[
    str | None,
    typer.Option(
        "--account",
        callback=lambda account: None if account is None else check_account(account),
        help="The open cases that are stuck on this account.",
    ),
]
OfError = Annotated[
    str | None, typer.Option("--all-of", metavar="ERROR", help="The open cases with this error.")
]
Seen = Annotated[
    str | None,
    typer.Option(
        "--seen",
        metavar="DIGEST",
        help="With --account or --all-of: give the order for the cases of this dry run.",
    ),
]
KeyAndDecision = Annotated[
    list[str],
    typer.Argument(
        metavar="[KEY] DECISION",
        autocompletion=keys_then_decisions,
        help="The settlement's idempotency key, unless --account or --all-of is given;"
        " then the decision: retry, write-off or complete.",
    ),
]
KeyAndProposed = Annotated[
    list[str],
    typer.Argument(
        metavar="[KEY] DECISION",
        autocompletion=keys_then_decisions,
        help="The settlement's idempotency key, unless --account or --all-of is given;"
        f" then the proposed decision: {', '.join(PROPOSABLE)}.",
    ),
]


def is_of_many(account: str | None, error: str | None, **of_one: object) -> bool:
    """Return whether --account or --all-of is given. Raises CommandFailed for mixed options.

    `of_one` has the options for a single case, and `seen`, which is only for many cases.
    """
    many, seen = account is not None or error is not None, of_one.pop("seen")
    for name, value in of_one.items():
        if many and value not in (None, False):
            raise CommandFailed(Exit.USAGE, f"{name}: is of one case; not with --account or --all-of")
    if seen is not None and not (many and isinstance(seen, str) and _SEEN.fullmatch(seen)):
        raise CommandFailed(Exit.USAGE, "seen: must be the digest of a dry run with --account or --all-of")
    return many


def key_and_decision(words: list[str]) -> tuple[str, Decision]:
    if len(words) != 2:
        raise typer.BadParameter("give KEY DECISION; or DECISION and --account, --all-of or both")
    return check_key(words[0]), decision_of(words[1])


def key_and_proposed(words: list[str]) -> tuple[str, str]:
    """Parse KEY and a proposed decision. Raises BadParameter, CommandFailed."""
    if len(words) != 2:
        raise typer.BadParameter("give KEY DECISION; or DECISION and --account, --all-of or both")
    key, decision = words
    if decision not in PROPOSABLE:
        raise typer.BadParameter(f"DECISION must be one of {', '.join(PROPOSABLE)}")
    return check_key(key), decision


def decision_alone(words: list[str]) -> Decision:
    if len(words) != 1:
        raise typer.BadParameter("give DECISION alone: --account and --all-of are in the place of KEY")
    return decision_of(words[0])


def decision_of(word: str) -> Decision:
    if word not in list(Decision):
        raise typer.BadParameter(f"DECISION must be one of {', '.join(Decision)}")
    return Decision(word)


def order(
    verb: str,
    decision: Decision,
    of: tuple[str | None, str | None],
    seen: str | None,
    stack: str | None,
    *,
    as_json: bool,
    reason: str = "",
) -> NoReturn:
    """Show the cases. With a valid digest `seen`, give the orders.

    Ends with typer.Exit and the gravest code. Raises CommandFailed if stopped half-way.
    """
    from settle.orders import many, selection
    from settle.orders import many_output as output
    from settle.orders.limbo import Which
    from settle.output import progress

    named = selection.Verb(verb)
    why = "" if named.is_on_proposals else _checked(reason)
    wanted = selection.Wanted(named, decision, Which(*of), why)
    target = find(stack)
    found = selection.select(target, wanted)
    items = found.shown(seen) if seen else None
    if seen is None or items is None:
        if seen:
            count = seen.partition("-")[0]
            console.note(
                f"settle: seen: nothing is ordered: of the cases that were shown ({count}) some are decided"
                f" by now, or have changed; these fit ({len(found.fit)}):"
            )
        output.dry_run(selection.describe(target, found), as_json)
        raise typer.Exit(Exit.CONFLICT if seen else Exit.FINE)
    for one in found.unreadable:
        console.note(f"left out, as it cannot be read: {one['unreadable']}")
    results: list[many.Result] = []
    try:
        with progress.counting({"ordered": len(items), "at rest": len(items)}) as told:
            many.carry_out(target, wanted, items, results.append, told)
    finally:
        lines = [result.describe() for result in results]
        if not console.is_written(partial(output.results, lines, as_json)):
            for line in lines:
                console.note(f"{line['key']}: {line['result']}")
            results.append(many.Result(items[0], Exit.FAILED, "the results were not written"))
    if newer := len(found.fit) - len(items):
        console.note(f"left, as they came later and were not shown: {newer}")
    if named is selection.Verb.PROPOSE:
        console.note(f"another person sees, and approves: {wanted.command(target, selection.Verb.APPROVE)}")
    raise typer.Exit(max((result.code for result in results), key=lambda code: code.gravity))


def _checked(reason: str) -> str:
    from settlement.core.model.errors import InvalidRequest
    from settlement.core.model.orders import one_line

    try:
        return one_line(reason, "reason")
    except InvalidRequest as refusal:
        raise CommandFailed(Exit.USAGE, str(refusal)) from refusal
