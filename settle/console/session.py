import hmac
import secrets
import time
from collections.abc import Callable

TOKEN_SECONDS = 600
"""Lifetime of the address with the token: a person can copy it, but one in an old terminal is useless."""

IDLE_SECONDS = 1_800
"""Longest time between requests. An unattended browser must not give orders."""

SESSION_SECONDS_MAX = 28_800
"""Maximum length of a session: a shift."""

_BYTES = 32


class Session:
    """A browser's session, kept only in memory. A token opens it once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.token = secrets.token_urlsafe(_BYTES)
        self.csrf = secrets.token_urlsafe(_BYTES)
        """A secret in each form. A page of another origin cannot know it."""

        self._cookie = ""
        self._made_at = self._seen_at = clock()

    def enter(self, token: str) -> str | None:
        """Exchange the token for the cookie. None: the token is wrong, used or expired."""
        now = self._clock()
        is_right = hmac.compare_digest(token.encode(), self.token.encode())
        if not (is_right and self.token) or now - self._made_at > TOKEN_SECONDS:
            return None
        self.token, self._cookie = "", secrets.token_urlsafe(_BYTES)
        self._made_at = self._seen_at = now
        return self._cookie

    def has(self, cookie: str) -> bool:
        """Return whether a cookie is the session's. If it is, extend the session."""
        now = self._clock()
        if now - self._seen_at > IDLE_SECONDS or now - self._made_at > SESSION_SECONDS_MAX:
            self.end()
        is_right = hmac.compare_digest(cookie.encode(), self._cookie.encode())
        if not (is_right and self._cookie):
            return False
        self._seen_at = now
        return True

    def is_form_of(self, csrf: str) -> bool:
        return hmac.compare_digest(csrf.encode(), self.csrf.encode())

    def end(self) -> None:
        self.token = self._cookie = ""
