from datetime import timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from settle import instants
from settle.bank import comparison, on_record
from settle.console.context import Console
from settle.console.respond import shown
from settlement.bank.matching import DAYS

STATEMENTS_SINCE = timedelta(days=35)
FINDINGS_MAX = 500


def bank(console: Console, request: Request) -> Response:
    """Show recent statements. With `since`, also compare them with the books.

    The comparison reads all orders, so a person must ask for it.
    """
    at = console.now()
    told = on_record.files(console.stack, at - STATEMENTS_SINCE, at)
    since = request.query_params.get("since", "").strip()
    verdict = _compared(console, since) if since else None
    findings = verdict["findings"] if verdict else []
    unreadable = {*told["unreadable"], *(verdict["unreadable"] if verdict else ())}
    values: dict[str, Any] = {
        "files": told["files"],
        "since": since,
        "verdict": verdict,
        "unreadable": sorted(unreadable),
        "more": len(findings) > FINDINGS_MAX,
        "findings": findings[:FINDINGS_MAX],
    }
    return shown("bank.html", console.frame(request), **values)


def _compared(console: Console, since: str) -> dict[str, Any]:
    begin = instants.parse(since, console.now(), "since").date().isoformat()
    wanted = comparison.wanted(console.stack, DAYS, None, None, None)
    return comparison.on_record(console.stack, begin, wanted)
