"""The guard of every page. It admits one browser, and requests from its own pages only.

Host ─▶ where the request comes from ─▶ session ─▶ form ─▶ the page
 421              403                     401       403
"""

from collections.abc import Awaitable, Callable
from urllib.parse import parse_qsl

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from settle.console.failures import Failure
from settle.console.respond import refused
from settle.console.session import Session
from settle.reports.page import render

ENTER = "/enter"
"""The only path that needs no session."""

FORM_BYTES_MAX = 16_384
"""Maximum size of a form: a reason has at most 500 characters, each at most twelve bytes."""

_FORM = "application/x-www-form-urlencoded"
_FIELDS_MAX = 16
_SAFE_METHODS = ("GET", "HEAD")
_ANEW = "End the console in its terminal, and start it anew: it prints a new address."
_OTHER = "Open the console by the address that it has printed, and follow no link of another page to it."


class Guard:
    def __init__(self, app: ASGIApp, session: Session, port: int) -> None:
        self.app, self.session = app, session
        self.host = f"127.0.0.1:{port}"
        self.origin = f"http://{self.host}"
        self.cookie = cookie_name(port)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse a request. Each answer has headers that forbid embedding."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        answer = self._with_headers(send)
        failure = self._stranger(request) or await self._forged(request)
        if failure:
            await refused(failure)(scope, receive, answer)
        else:
            await self.app(scope, receive, answer)

    def _stranger(self, request: Request) -> Failure | None:
        """Return a Failure for a request from another host, page or browser.

        The only valid host is the literal 127.0.0.1, which stops DNS rebinding. Any page may link to ENTER:
        its token proves the person.
        """
        if request.headers.getlist("host") != [self.host]:
            return Failure(421, "This is another host", "Host: it must be 127.0.0.1 with its port", _OTHER)
        entering = request.url.path == ENTER and request.method == "GET"
        if not entering and request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return Failure(403, "The request comes from another page", "Sec-Fetch-Site: not ours", _OTHER)
        origin = request.headers.get("origin")
        if origin != self.origin and not (origin is None and request.method in _SAFE_METHODS):
            return Failure(403, "The request comes from another page", "Origin: not ours", _OTHER)
        if entering or self.session.has(request.cookies.get(self.cookie, "")):
            return None
        what = "The session is over, was never opened, or is that of another browser. Nothing was written."
        return Failure(401, "There is no session", what, _ANEW)

    async def _forged(self, request: Request) -> Failure | None:
        """Return a Failure for a form of another page. A valid form's fields go to `request.state`."""
        if request.method in _SAFE_METHODS:
            return None
        again = "Open the page again, and send its form."
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > FORM_BYTES_MAX:
                return Failure(413, "The form is too long", "Nothing was written.", again)
        try:
            if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
                raise ValueError
            pairs = parse_qsl(body.decode(), True, True, errors="strict", max_num_fields=_FIELDS_MAX)
        except ValueError:
            return Failure(400, "This is no form", "Nothing was written.", again)
        fields = dict(pairs)
        if not self.session.is_form_of(fields.pop("csrf", "")):
            return Failure(403, "The form is of no page of this session", "csrf: not ours", again)
        request.state.fields = fields
        return None

    def _with_headers(self, send: Send) -> Callable[[Message], Awaitable[None]]:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_headers())
            await send(message)

        return sending


def cookie_name(port: int) -> str:
    """Return the cookie's name, with the port, because a browser shares cookies between a host's ports."""
    return f"settle_{port}"


def _headers() -> dict[str, str]:
    """Return security headers, without `no-referrer`, which would give our forms the origin `null`."""
    policy = render.policy(form_action="'self'")
    return {
        "content-security-policy": f"{policy}; frame-ancestors 'none'",
        "referrer-policy": "same-origin",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-store",
    }
