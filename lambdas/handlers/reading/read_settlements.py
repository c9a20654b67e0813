"""Serve outcomes, statements, lists and the journal to clients who may read but not pay."""

from collections.abc import Callable
from typing import Any

from handlers import _dependencies
from handlers.http import _http
from handlers.http._http import Response
from handlers.reading import _journal_page, _listing, _long_poll
from settlement.core.policy import outcome
from settlement.core.telemetry import about, observed
from settlement.reading.queries import (
    EntriesQuery,
    parse_entries_query,
    parse_journal_query,
    parse_list_query,
    parse_outcome_query,
)


def handler(event: dict[str, Any], context: Any) -> Response:
    return _http.answered(_read, event, context)


@observed("read")
def _read(event: dict[str, Any], context: Any) -> Response:
    return ROUTES[event["routeKey"]](event, context)


def _outcome(event: dict[str, Any], context: Any) -> Response:
    key = _path(event, "key")
    about(key)
    query = parse_outcome_query(key, _query(event))
    state = _long_poll.read(query, context.get_remaining_time_in_millis())
    etag = f'"{state.sequence}"'
    if _has(event, etag):
        return {"statusCode": 304, "headers": {"etag": etag}}
    found = outcome.of_state(state, _dependencies.config, replayed=True)
    return _http.response(200, found, etag=etag)


def _statement(event: dict[str, Any], _: Any) -> Response:
    return _http.response(200, _listing.statement(parse_entries_query(_path(event, "id"), _query(event))))


def _list(event: dict[str, Any], _: Any) -> Response:
    query = parse_list_query(_query(event))
    if isinstance(query, EntriesQuery):
        return _http.response(200, _listing.by_account(query))
    return _http.response(200, _listing.by_status(query))


def _journal(event: dict[str, Any], context: Any) -> Response:
    return _http.response(200, _journal_page.page(parse_journal_query(_query(event)), context))


ROUTES: dict[str, Callable[[dict[str, Any], Any], Response]] = {
    "GET /settlements/{key}": _outcome,
    "GET /settlements": _list,
    "GET /accounts/{id}/entries": _statement,
    "GET /journal": _journal,
}


def _path(event: dict[str, Any], name: str) -> object:
    return (event.get("pathParameters") or {}).get(name)


def _query(event: dict[str, Any]) -> dict[str, str]:
    """The parameters. API Gateway joins repeated ones with a comma, which no valid value has."""
    return event.get("queryStringParameters") or {}


def _has(event: dict[str, Any], etag: str) -> bool:
    given = (event.get("headers") or {}).get("if-none-match", "")
    return any(one.strip().removeprefix("W/") in (etag, "*") for one in given.split(","))
