"""Renders the tables of the reference pages from the code: `python -m docs.reference.generate`.

A page is written by hand, except for the tables between `<!-- table: NAME -->` and `<!-- end -->`.
`meanings.toml` has exactly one meaning for each name in the code.
"""

import json
import logging
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from docs.reference import roles
from infra.concurrency import Concurrency
from infra.config import Settings
from infra.kyc_config import KycSettings
from infra.payouts_config import PayoutSettings
from infra.payruns import PayRunSettings
from settle import cli, explanations
from settle.exit_codes import Exit
from settle.migrations.rows import Direction, Phase, Progress
from settlement.core.ledger import keys
from settlement.core.model.state import _TIMES
from settlement.core.model.status import TRANSITIONS
from settlement.core.model.stored import STATE_TYPES
from settlement.core.store.dynamodb import _TRANSIENT_REASONS
from settlement.retention import expiry
from settlement.signing.signature import RowKeys

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
PAGES = sorted(HERE.glob("*.md"))
MEANINGS = tomllib.loads((HERE / "meanings.toml").read_text())
CATCHES = [
    (name, catch)
    for machine in ("settlement", "compensation", "pay_out")
    for name, state in json.loads((PROJECT / f"statemachines/{machine}.asl.json").read_text())[
        "States"
    ].items()
    for catch in state.get("Catch", ())
]
_PLACE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_COUNTED = re.compile(r"(?:\bcount\(|\bgauge\(|add_metric\(name=|\bmetric=|\bAction\.\w+: )(.+)")
_SHARED = {"--csv", "--spreadsheet", "--stack", "--json"}
"""Options of many commands: the head of the page explains them by hand."""

_SHARED_BY_MIN = 4
"""An option with one meaning in this many commands or more is explained once."""

_ROWS = {
    "SETTLEMENT": "settlement",
    "ACCOUNT": "account",
    "ENTRIES": "entry",
    "EVIDENCE": "evidence",
    "SWEPT": "sweep",
    "ORDER": "order",
    "WAITING": "waiting",
    "PROPOSAL": "proposal",
    "KYC_EVENT": "event",
    "PAYOUT": "payout",
    "PAYRUN": "payrun",
    "PAYRUN_DECISION": "payrun_decision",
    "PAYRUN_LINE": "payrun_line",
    "PAYOUT_REFERENCE": "payout_reference",
    "PAYOUT_CASE": "payout_case",
    "PAYOUT_LINE": "payout_line",
    "DESTINATION": "destination",
    "BANK_LINE LINE": "bank_line",
    "BANK_LINE MATCH": "bank_match",
    "BANKED": "bank_match",
    "BANK_FILE FILE": "bank_file",
    "BANK_FILE STATEMENT": "bank_statement",
    "BANK_ORDER": "bank_order",
}
"""Kinds of rows by the first part of `pk`, or by that and the first part of `sk`."""

_OF_PAYOUT = {
    **dict.fromkeys(
        (
            *("first_sent_at", "sent_at", "sent_sha256", "asked_from", "said", "said_at", "detail"),
            *("paid_at", "ended_at", "trouble", "debit_line", "return_line"),
            *("given_back_at", "given_back_to"),
        ),
        str,
    ),
    "in_suspense": int,
    "decided": dict,
}
"""The attributes of a payout that its updates set, with their types."""

_PROGRESS = {
    name: str if isinstance(value, str) else int
    for name, value in Progress(
        name="",
        direction=Direction.FORWARD,
        phase=Phase.PAUSED,
        version=1,
        runner="",
        leased_until="",
        began_at="",
        deployment="",
        after=keys.settlement(""),
        reason="",
    )
    .to_row()
    .items()
}
"""The attributes of the row of a migration, with their types."""

_ANY_KEY = RowKeys.from_text("1:any")
_WIRE = {"int": "N", "str": "S", "set": "SS", "dict": "M"}


def rendered(page: Path) -> str:
    """Return a page's text, with its tables rendered from the current code."""
    return _PLACE.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}\n{found[3]}", page.read_text())


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def _meant(kind: str, head: Sequence[str], found: Mapping[str, Sequence[str]]) -> str:
    """Render each name in the code, with its meaning. Raises ValueError if `meanings.toml` differs."""
    if differing := sorted(MEANINGS[kind].keys() ^ found.keys()):
        raise ValueError(f"meanings.toml: [{kind}] has too many or too few of {', '.join(differing)}")
    return _table(
        [*head, "meaning"],
        [(f"`{name}`", *found[name], meaning) for name, meaning in MEANINGS[kind].items()],
    )


def _statuses() -> str:
    found = {
        status.value: (", ".join(sorted(following)), str(Exit.of_status(status).value))
        for status, following in TRANSITIONS.items()
    }
    return _meant("status", ("status", "may become", "exit code"), found)


def _errors(*, final: bool) -> str:
    """Render the errors, with the states that catch each error by name, and the states that follow."""
    rows = []
    for name, one in explanations.every().items():
        if one.is_final is final:
            ways: dict[str, list[str]] = defaultdict(list)
            for state, catch in CATCHES:
                if name in catch["ErrorEquals"]:
                    ways[catch["Next"]].append(state)
            caught = "; ".join(f"{', '.join(states)} → {target}" for target, states in ways.items())
            act = f"{one.who}: {one.act} [more](../{one.page})"
            rows.append((f"`{name}`", one.meaning, act, caught))
    return _table(("error", "meaning", "who acts, and how", "states that catch it"), rows)


def _metrics() -> str:
    """Render the metrics, except the metrics with the names of errors."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((PROJECT / "lambdas").rglob("*.py")):
        counted = re.findall(r'"([A-Z][a-z]\w+)"', " ".join(_COUNTED.findall(path.read_text())))
        for name in {*counted, *(_TRANSIENT_REASONS if path.name == "dynamodb.py" else ())}:
            found[name].append(f"[`{path.name}`](../../{path.relative_to(PROJECT)})")
    return _meant("metric", ("metric", "counted in"), {name: (", ".join(found[name]),) for name in found})


def _leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    if hasattr(command, "commands"):
        for part, each in command.commands.items():
            yield from _leaves(f"{name} {part}", each)
    else:
        yield name, command


def _options(command: Any) -> dict[str, tuple[str, str]]:
    """Return the help of each argument and option, except those that the head explains by hand."""
    context = command.context_class(command)
    own = [one for one in command.params if one.opts[0] not in _SHARED]
    return {one.opts[0]: one.get_help_record(context) for one in own}


def _repeated() -> dict[tuple[str, str], str]:
    """Return the short names of the options with one meaning in several commands."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for _, command in _leaves("settle", cli.command()):
        for name, record in _options(command).items():
            found[record].append(name)
    return {
        record: names[0]
        for record, names in found.items()
        if names[0].startswith("-") and len(names) >= _SHARED_BY_MIN
    }


def _shared_options() -> str:
    return _table(("option", "meaning"), [(f"`{given}`", text) for given, text in _repeated()])


def _commands() -> Iterator[str]:
    repeated = _repeated()
    for name, command in _leaves("settle", cli.command()):
        records = _options(command)
        rows = [(f"`{given}`", text) for given, text in records.values() if (given, text) not in repeated]
        elsewhere = [repeated[record] for record in records.values() if record in repeated]
        elsewhere += [one.opts[0] for one in command.params if one.opts[0] in _SHARED]
        shared = ", ".join(f"`{option}`" for option in elsewhere)
        about = re.sub("Example: (.+)", r"Example: `\1`", command.help)
        options = _table(("argument or option", "meaning"), rows) if rows else ""
        yield "\n\n".join(filter(None, [f"### {name}", about, options, shared and f"Also: {shared}"]))


def _settings(kind: str, settings: type[Any]) -> str:
    found = {
        one.name: ("" if one.default is MISSING else f"`{getattr(one.default, 'name', one.default)}`",)
        for one in fields(settings)
    }
    return _meant(kind, ("setting", "default"), found)


def _attributes(kind: str, *read: str, **written: type) -> str:
    """Render the attributes of rows that golden vectors put, and the attributes `read` from a row.

    `written`: the types of attributes that an update sets and no function reads.
    """
    types = {**{name: STATE_TYPES[name] for name in read}, **written}
    found = {name: (_WIRE[of.__name__],) for name, of in types.items()}
    for path in (PROJECT / "tests/unit").rglob("golden/*.json"):
        built = json.loads(path.read_text())
        for write in built if isinstance(built, list) else [built]:
            row = write.get("parameters", {}).get("Item", {})
            if _kind(row) == kind:
                put = _ANY_KEY.signed(expiry.with_expiry(row, 400))
                found |= {name: (_wire(value),) for name, value in put.items()}
    keys = ("pk", "sk")
    return _meant(kind, ("attribute", "type"), {name: found[name] for name in found if name not in keys})


def _kind(row: Mapping[str, str]) -> str | None:
    pk, sk = (row.get(name, "").partition("#")[0] for name in ("pk", "sk"))
    return _ROWS.get(pk) or _ROWS.get(f"{pk} {sk}")


def _wire(value: Any) -> str:
    is_set = isinstance(value, dict) and value.keys() == {"set"}  # as JSON writes it
    return _WIRE["set" if is_set else type(value).__name__]


TABLES: dict[str, Callable[[], str]] = {
    "statuses": _statuses,
    "exit_codes": lambda: _meant("exit", ("name", "code"), {one.name: (str(one.value),) for one in Exit}),
    "refusals": lambda: _errors(final=True),
    "transient_errors": lambda: _errors(final=False),
    "metrics": _metrics,
    "commands": lambda: "\n\n".join(_commands()),
    "shared_options": _shared_options,
    "stage": lambda: _settings("stage", Settings),
    "kyc": lambda: _settings("kyc", KycSettings),
    "payouts": lambda: _settings("payouts", PayoutSettings),
    "pay_runs": lambda: _settings("pay_runs", PayRunSettings),
    "concurrency": lambda: _settings("concurrency", Concurrency),
    "account": lambda: _attributes(
        "account", "available", "currency", "limbo_cases", *_TIMES, last_order=str
    ),
    "settlement": lambda: _attributes(
        "settlement", *(STATE_TYPES.keys() - {"available", "limbo_cases", *_TIMES})
    ),
    "entry": lambda: _attributes("entry"),
    "evidence": lambda: _attributes("evidence", approved_by=str, approved_in=str, break_glass=str),
    "order": lambda: _attributes("order"),
    "sweep": lambda: _attributes("sweep"),
    "waiting": lambda: _attributes("waiting"),
    "proposal": lambda: _attributes("proposal"),
    "migration": lambda: _attributes("migration", **_PROGRESS),
    "event": lambda: _attributes("event"),
    "payout": lambda: _attributes("payout", **_OF_PAYOUT),
    "payrun": lambda: _attributes("payrun", cut=int, changed_at=str),
    "payrun_decision": lambda: _attributes("payrun_decision", parent=str),
    "payrun_line": lambda: _attributes("payrun_line", refused=str, why=str),
    "payout_reference": lambda: _attributes("payout_reference"),
    "payout_day": lambda: _attributes("payout_day", reserved=int),
    "payout_case": lambda: _attributes("payout_case", account=str),
    "payout_line": lambda: _attributes("payout_line", refused=str),
    "bank_line": lambda: _attributes("bank_line"),
    "bank_match": lambda: _attributes("bank_match"),
    "bank_file": lambda: _attributes("bank_file"),
    "bank_statement": lambda: _attributes("bank_statement"),
    "bank_order": lambda: _attributes("bank_order"),
    "destination": lambda: _attributes("destination", frozen_at=str, frozen_by=str, last_payout=str),
    "roles": lambda: _table(
        ("role of", "alone", "in a transaction", "attributes of money", "other services"), roles.permissions()
    ),
    "services": lambda: _table(("role of", "allows"), roles.of_services()),
    "stolen": lambda: _table(("a thief", "with the role of"), roles.stolen()),
    "starters": lambda: _table(("role of", "machines that it starts with any input"), roles.starters()),
}

if __name__ == "__main__":
    logging.disable()  # the functions that are observed for the table of roles log their calls
    for page in PAGES:
        page.write_text(rendered(page))
