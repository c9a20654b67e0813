from typing import Any

from starlette.responses import HTMLResponse, RedirectResponse, Response

from settle.console.failures import Failure
from settle.reports.page import render
from settle.reports.page.render import Frame


def shown(template: str, frame: Frame | None, code: int = 200, **values: Any) -> Response:
    return HTMLResponse(render.page(template, frame=frame, **values), code)


def refused(failure: Failure, frame: Frame | None = None, back: str = "") -> Response:
    return shown("failure.html", frame, failure.status, failure=failure, back=back)


def onward(path: str) -> Response:
    return RedirectResponse(path, 303)
