"""The one session of a console: entered once by a token, and ended by its person or by time."""

import hmac
import secrets
import time
from collections.abc import Callable

TOKEN_SECONDS = 600
"""How long the printed address is good for: time to copy it, and none to find it in an old terminal."""

IDLE_SECONDS = 1_800
"""How long a session lasts without a request: an unattended browser gives no order."""

SESSION_SECONDS_MAX = 28_800
"""How long a session lasts at all: a shift."""

_BYTES = 32


class Session:
    """A session, closed until its token comes. All of it is in memory, and ends with the process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.token = secrets.token_urlsafe(_BYTES)
        self.csrf = secrets.token_urlsafe(_BYTES)
        """What each form of a page has, and a page of another origin cannot know."""

        self._cookie = ""
        self._made_at = self._seen_at = clock()

    def enter(self, token: str) -> str | None:
        """Exchange the token for the session's cookie; None for any other token, and for a second time."""
        now = self._clock()
        is_right = hmac.compare_digest(token.encode(), self.token.encode())
        if not (is_right and self.token) or now - self._made_at > TOKEN_SECONDS:
            return None
        self.token, self._cookie = "", secrets.token_urlsafe(_BYTES)
        self._made_at = self._seen_at = now
        return self._cookie

    def has(self, cookie: str) -> bool:
        """Return whether a request belongs to the session, which lasts longer by it."""
        now = self._clock()
        if now - self._seen_at > IDLE_SECONDS or now - self._made_at > SESSION_SECONDS_MAX:
            self.end()
        is_right = hmac.compare_digest(cookie.encode(), self._cookie.encode())
        if not (is_right and self._cookie):
            return False
        self._seen_at = now
        return True

    def is_form_of(self, csrf: str) -> bool:
        """Return whether a form comes from a page of this session."""
        return hmac.compare_digest(csrf.encode(), self.csrf.encode())

    def end(self) -> None:
        """End the session: neither the cookie nor the token opens it again."""
        self.token = self._cookie = ""
