"""A `Visitor`: a browser of the console of a desk's stack."""

import re
from datetime import timedelta
from typing import Any

import httpx2 as httpx
from starlette.testclient import TestClient

from settle.console.app import application
from settle.console.context import Console
from settle.console.session import Session
from tests.settle.desk import ADA, Desk
from tests.world.environment import NOW

PORT = 8123
ORIGIN = f"http://127.0.0.1:{PORT}"
_HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)"')


class Sts:
    def __init__(self, arn: str = ADA) -> None:
        self.arn = arn

    def get_caller_identity(self) -> dict[str, str]:
        return {"Arn": self.arn}


class Visitor:
    def __init__(self, desk: Desk, session: Session | None = None) -> None:
        self.desk, self.session, self.ended = desk, session or Session(), list[bool]()
        desk.stack.clients.setdefault("sts", Sts())
        self.at = NOW + timedelta(hours=1)
        self.console = Console(desk.stack, self.session, lambda: self.at)
        app = application(self.console, PORT, lambda: self.ended.append(True))
        self.client = TestClient(app, base_url=ORIGIN, follow_redirects=False)

    def enter(self) -> "Visitor":
        """Open the session with its token, as the printed address does."""
        assert self.get(f"/enter?token={self.session.token}").status_code == 200
        return self

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.client.get(path, headers=headers)

    def page(self, path: str) -> str:
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    def send(self, path: str, headers: dict[str, str] | None = None, /, **fields: str) -> httpx.Response:
        """Send a form with the session's CSRF token, as its page does."""
        fields = {"csrf": self.session.csrf} | fields
        return self.client.post(path, data=fields, headers={"origin": ORIGIN} | (headers or {}))

    def submit(self, page: str, action: str, **typed: str) -> httpx.Response:
        form = page.partition(f'action="{action}"')[2].partition("</form>")[0]
        assert form, page
        return self.send(action, **{**dict(_HIDDEN.findall(form)), **typed})


def hidden(page: str) -> dict[str, Any]:
    return dict(_HIDDEN.findall(page))
