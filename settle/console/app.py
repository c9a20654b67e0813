from collections.abc import Callable

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from settle.console import bank, decisions, failures, pages, rooms
from settle.console.context import Console
from settle.console.failures import Failure
from settle.console.guard import ENTER, Guard, cookie_name
from settle.console.respond import refused, shown
from settle.output.console import note
from settlement.core.model.request import KEY

Page = Callable[[Console, Request], Response]

_PAGES: dict[str, Page] = {
    "/": pages.waiting,
    "/search": pages.search,
    "/bank": bank.bank,
    "/settlements/{key}": pages.settlement,
    "/settlements/{key}/decide": decisions.decide,
    "/settlements/{key}/decide/{decision}": decisions.weigh,
    "/accounts/{account}": pages.account,
    "/accounts/{account}/statement.csv": pages.statement_csv,
}
_ORDERS: dict[str, Page] = {
    "/settlements/{key}/decide/{decision}": decisions.order,
    "/settlements/{key}/approve": decisions.approve,
    "/settlements/{key}/withdraw": decisions.withdraw,
}
_USED = "The address was used already, is too old, or is another one. It opens one browser, once."
_ANEW = "If you have not used it, end the console in its terminal. Start it anew: it prints a new address."


def application(console: Console, port: int, ended: Callable[[], None]) -> Guard:
    """Return the guarded pages. When the person ends the session, `ended` is called."""

    async def enter(request: Request) -> Response:
        """Exchange the token for the cookie.

        It is a coroutine, because in a thread pool two browsers could both spend the token. It answers
        with a refresh, because a browser opened by another program sends no strict cookie on a redirect.
        """
        cookie = console.session.enter(request.query_params.get("token", ""))
        if cookie is None:
            return refused(Failure(403, "The address is not good any more", _USED, _ANEW))
        answer = shown("enter.html", None)
        answer.headers["refresh"] = "0; url=/"
        answer.set_cookie(cookie_name(port), cookie, httponly=True, samesite="strict", path="/")
        return answer

    async def end(request: Request) -> Response:
        console.session.end()
        answer = shown("ended.html", None)
        answer.background = BackgroundTask(ended)
        answer.delete_cookie(cookie_name(port), path="/")
        return answer

    async def lost(request: Request, failed: Exception) -> Response:
        return await run_in_threadpool(_failed, console, request, failed)

    every = _PAGES | {path: _of_room(describe) for path, describe in rooms.pages().items()}
    routes = [
        Route(ENTER, enter, methods=["GET"]),
        Route("/end", end, methods=["POST"]),
        *(Route(path, _answering(console, page), methods=["GET"]) for path, page in every.items()),
        *(Route(path, _answering(console, page), methods=["POST"]) for path, page in _ORDERS.items()),
    ]
    return Guard(Starlette(routes=routes, exception_handlers={HTTPException: lost}), console.session, port)


def _of_room(describe: rooms.Describe) -> Page:
    def page(console: Console, request: Request) -> Response:
        template, values = describe(console.stack, request.path_params)
        return shown(template, console.frame(request), **values)

    return page


def _answering(console: Console, page: Page) -> Callable[[Request], object]:
    """Return a handler that runs a page and shows failures.

    The page waits for AWS, so it runs in a thread.
    """

    async def answer(request: Request) -> Response:
        try:
            return await run_in_threadpool(page, console, request)
        except Exception as failed:
            return await run_in_threadpool(_failed, console, request, failed)

    return answer


def _failed(console: Console, request: Request, failed: Exception) -> Response:
    failure = failures.told(failed)
    if failure.status == failures.FAULT:
        note(f"settle console: {type(failed).__name__}: {failed}")
    key = request.path_params.get("key", "") if request.url.path.startswith("/settlements/") else ""
    back = f"/settlements/{key}" if KEY.fullmatch(key) else ""
    return refused(failure, console.frame(request), back)
