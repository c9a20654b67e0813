from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from settle import instants
from settle.accounts import references, statement
from settle.arguments import check_account, check_key
from settle.console.context import Console
from settle.console.respond import onward, shown
from settle.exit_codes import CommandFailed, Exit
from settle.orders import audit, limbo
from settle.output import sheet
from settle.reports import queue, report
from settle.reports.page import render
from settle.settlements import aside, in_flight
from settlement.core.model.status import FINISHED, Status

LIVE_SECONDS = 5

LIVE_TIMES = 60
"""Reloads after which a page stops, so an unattended browser does not keep a session open."""

STATEMENT_LINES = 100

ORDERS_MAX = 500

_ORDERS_SINCE = timedelta(days=7)
_STATUSES = (Status.LIMBO, Status.PROCESSING, Status.COMPENSATING)


def waiting(console: Console, request: Request) -> Response:
    live = _live(request, 0)
    told = queue.describe(console.stack, console.now())
    return _reloading(render.queue(told, console.frame(request, live)), request, live)


def settlement(console: Console, request: Request) -> Response:
    """Show a settlement. Reload the page until the settlement is final, in LIMBO or in review."""
    told = report.describe(console.stack, check_key(request.path_params["key"]), console.now())
    status, live = told["outcome"]["status"], None
    if status not in {*FINISHED, Status.LIMBO}:
        live = _live(request, 0 if told["review"] else LIVE_TIMES)
    return _reloading(render.settlement(told, console.frame(request, live)), request, live)


def _live(request: Request, default: int) -> int:
    text = request.query_params.get("live", "")
    return min(int(text), LIVE_TIMES) if text.isdecimal() and len(text) <= len(str(LIVE_TIMES)) else default


def _reloading(page: str, request: Request, live: int | None) -> Response:
    headers = {"refresh": f"{LIVE_SECONDS}; url={request.url.path}?live={live - 1}"} if live else {}
    return HTMLResponse(page, headers=headers)


def account(console: Console, request: Request) -> Response:
    name = check_account(request.path_params["account"])
    told = statement.show(console.stack, name, with_references=False)
    since, until = _times(console, request)
    entries = [one for one in told["entries"] if _is_between(one["posted_at"], since, until)]
    pages = max(1, -(-len(entries) // STATEMENT_LINES))
    wanted = request.query_params.get("page", "")
    number = min(max(int(wanted), 1), pages) if wanted.isdecimal() and len(wanted) < 9 else pages
    lines = entries[(number - 1) * STATEMENT_LINES : number * STATEMENT_LINES]
    for line, reference in zip(lines, references.read(console.stack, lines), strict=True):
        line["reference"] = reference
    values: dict[str, Any] = {
        "account": told,
        "archived": console.stack.command("account show", name, archive="stack"),
        "unreadable": _unreadable(told.get("unreadable", ())),
        "lines": lines,
        "count": len(entries),
        "number": number,
        "pages": pages,
    }
    return shown("account.html", console.frame(request), **values, times=_given(request))


def statement_csv(console: Console, request: Request) -> Response:
    name = check_account(request.path_params["account"])
    told = statement.show(console.stack, name)
    since, until = _times(console, request)
    entries = [
        entry | {"currency": told["currency"]}
        for entry in told["entries"]
        if _is_between(entry["posted_at"], since, until)
    ]
    file = f'attachment; filename="{name.replace(":", "-")}.csv"'
    return Response(
        sheet.text(entries, statement.FIELDS, statement.NUMBERS, guarded=True),
        media_type="text/csv",
        headers={"content-disposition": file},
    )


def search(console: Console, request: Request) -> Response:
    asked = {name: value.strip() for name, value in request.query_params.items()}
    if asked.get("key"):
        return onward(f"/settlements/{check_key(asked['key'])}")
    if asked.get("account"):
        return onward(f"/accounts/{check_account(asked['account'])}")
    values: dict[str, Any] = {"statuses": _STATUSES, "asked": asked, "settlements": None, "orders": None}
    values["unreadable"] = []
    if asked.get("status"):
        values |= _by_status(console, asked["status"], *_times(console, request))
    elif "by" in asked:
        values |= _orders(console, asked["by"], *_times(console, request))
    return shown("search.html", console.frame(request), **values)


def _by_status(
    console: Console, status: str, since: datetime | None, until: datetime | None
) -> Mapping[str, Any]:
    if status not in _STATUSES:
        raise CommandFailed(Exit.USAGE, f"status: must be one of {', '.join(_STATUSES)}")
    lines: list[dict[str, Any]]
    if status == Status.LIMBO:
        cases, more = limbo.open_cases(console.stack, queue.LINES_MAX)
        lines = [one | {"amount": one["amount_at_risk"]} for one in cases]
    else:
        found = in_flight.in_flight(console.stack, queue.LINES_MAX)
        every = in_flight.in_flight_lines(console.stack, found)
        lines = [one for one in every if one["status"] in (status, None) or aside.UNREADABLE in one]
        more = found.more
    kept = [one for one in lines if aside.UNREADABLE in one or _is_between(one["since"] or "", since, until)]
    return {"settlements": kept, "more": more, "unreadable": _unreadable(kept)}


def _orders(console: Console, by: str, since: datetime | None, until: datetime | None) -> Mapping[str, Any]:
    at = console.now()
    pages = audit.pages(console.stack, since or at - _ORDERS_SINCE, until or at, by or None)
    found = list(islice(chain.from_iterable(pages), ORDERS_MAX + 1))
    shown_orders = found[:ORDERS_MAX]
    return {
        "orders": shown_orders,
        "more": len(found) > ORDERS_MAX,
        "unreadable": _unreadable(shown_orders),
    }


def _unreadable(lines: Sequence[aside.Line]) -> list[str]:
    return [one[aside.UNREADABLE] for one in aside.of(lines)]


def _given(request: Request) -> dict[str, str]:
    return {name: request.query_params.get(name, "").strip() for name in ("since", "until")}


def _times(console: Console, request: Request) -> tuple[datetime | None, datetime | None]:
    """Parse a request's `since` and `until` (exclusive). None: not given. Raises CommandFailed."""
    at = console.now()
    since, until = (
        instants.parse(text, at, name) if text else None for name, text in _given(request).items()
    )
    if since and until and until <= since:
        raise CommandFailed(Exit.USAGE, "until: must be after since")
    return since, until


def _is_between(instant: str, since: datetime | None, until: datetime | None) -> bool:
    """Return whether an instant is in a period. A malformed instant is only in the unbounded period."""
    if since is None and until is None:
        return True
    try:
        at = datetime.fromisoformat(instant)
        return (since is None or at >= since) and (until is None or at < until)
    except (ValueError, TypeError):
        return False
