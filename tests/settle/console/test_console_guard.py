import re
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from settle.console import guard, session
from settle.console.session import Session
from tests.settle.desk import Desk
from tests.settle.visitor import ORIGIN, PORT, Visitor
from tests.world.constants import KEY

DECIDE = f"/settlements/{KEY}/decide"
WRITE_OFF = {"verb": "resolve", "case": "1", "reason": "agreed", "confirmed": "write-off"}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


# The token


def test_the_token_opens_one_session_and_appears_on_no_page(desk: Desk) -> None:
    visitor = Visitor(desk)
    token = visitor.session.token
    address = f"/enter?token={token}"

    first = visitor.get(address, **{"sec-fetch-site": "cross-site"})  # as a link of any page
    inside = visitor.page("/search")
    visitor.client.cookies.clear()
    second = visitor.get(address)

    assert (first.status_code, first.headers["refresh"]) == (200, "0; url=/")
    cookie = first.headers["set-cookie"]
    assert cookie.startswith(f"settle_{PORT}=")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert (second.status_code, "set-cookie" in second.headers) == (403, False)
    assert visitor.get("/").status_code == 401
    assert token not in first.text + str(first.headers) + inside


@pytest.mark.parametrize("token", ["", "x", "é", "%00"])
def test_after_a_wrong_token_the_right_one_still_works(desk: Desk, token: str) -> None:
    visitor = Visitor(desk)

    refused = visitor.get(f"/enter?token={token}")

    assert (refused.status_code, visitor.get("/").status_code) == (403, 401)
    assert visitor.enter().get("/search").status_code == 200


def test_an_expired_token_opens_no_session(clock: Clock) -> None:
    made = Session(clock)
    token = made.token

    clock.now = session.TOKEN_SECONDS + 1

    assert made.enter(token) is None


def test_a_session_ends_when_idle_and_at_its_maximum_age(clock: Clock) -> None:
    idle, busy = Session(clock), Session(clock)
    of_idle, of_busy = idle.enter(idle.token), busy.enter(busy.token)
    assert of_idle
    assert of_busy

    asked = []
    while clock.now <= session.SESSION_SECONDS_MAX:
        asked.append(busy.has(of_busy))
        clock.now += session.IDLE_SECONDS

    assert all(asked)
    assert not idle.has(of_idle)
    assert not busy.has(of_busy)
    clock.now = 0
    assert not busy.has(of_busy), "an ended session stays ended"


def test_a_request_without_a_cookie_has_no_session(clock: Clock) -> None:
    made = Session(clock)

    before = made.has("")
    made.enter(made.token)
    made.end()

    assert [before, made.has(""), made.enter("")] == [False, False, None]


def test_ending_the_session_also_stops_the_console(desk: Desk) -> None:
    visitor = Visitor(desk).enter()

    ended = visitor.submit(visitor.page("/search"), "/end")

    assert (ended.status_code, visitor.ended) == (200, [True])
    assert visitor.get("/search").status_code == 401


# Where a request comes from


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "127.0.0.1"}, 421),
        ({"host": f"localhost:{PORT}"}, 421),
        ({"host": f"rebound.example:{PORT}"}, 421),
        ({"host": f"127.0.0.1:{PORT + 1}"}, 421),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": f"http://127.0.0.1:{PORT + 1}"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"cookie": ""}, 401),
        ({"cookie": f"settle_{PORT}=x"}, 401),
    ],
    ids=str,
)
def test_a_request_from_another_origin_is_refused_and_writes_nothing(
    desk: Desk, headers: dict[str, str], status: int
) -> None:
    desk.stuck()
    visitor = Visitor(desk).enter()

    with desk.writes_nothing():
        read = visitor.get("/", **headers)
        ordered = visitor.send(f"{DECIDE}/write-off", headers, **WRITE_OFF)

    assert [read.status_code, ordered.status_code] == [status, status]
    assert "Nothing" in read.text or "What next" in read.text
    assert KEY not in read.text
    assert visitor.session.csrf not in read.text


def test_a_form_without_an_origin_is_refused(desk: Desk) -> None:
    desk.stuck()
    visitor = Visitor(desk).enter()

    with desk.writes_nothing():
        answer = visitor.client.post(f"{DECIDE}/write-off", data={"csrf": visitor.session.csrf} | WRITE_OFF)

    assert answer.status_code == 403


@pytest.mark.parametrize("csrf", ["", "x", "é"])
def test_a_form_without_the_right_csrf_token_writes_nothing(desk: Desk, csrf: str) -> None:
    desk.stuck()
    visitor = Visitor(desk).enter()

    with desk.writes_nothing():
        answers = [
            visitor.send(path, csrf=csrf, **WRITE_OFF)
            for path in (f"{DECIDE}/write-off", f"/settlements/{KEY}/approve", "/end")
        ]

    assert [answer.status_code for answer in answers] == [403] * 3
    assert visitor.ended == []
    assert [decision for decision, _ in desk.door.given if decision == "write-off"] == []


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"csrf=x", "text/plain", 400),
        (b"csrf=x", "multipart/form-data; boundary=x", 400),
        (b"{}", "application/json", 400),
        (b"\xff=x", "application/x-www-form-urlencoded", 400),
        (b"csrf=%ff", "application/x-www-form-urlencoded", 400),
        (b"&".join(b"a=b" for _ in range(17)), "application/x-www-form-urlencoded", 400),
        (b"a=" + b"b" * guard.FORM_BYTES_MAX, "application/x-www-form-urlencoded", 413),
    ],
)
def test_a_request_body_that_is_not_a_form_is_refused(
    desk: Desk, content: bytes, kind: str, status: int
) -> None:
    visitor = Visitor(desk).enter()
    headers = {"origin": ORIGIN, "content-type": kind}

    answer = visitor.client.post("/end", content=content, headers=headers)

    assert (answer.status_code, visitor.ended) == (status, [])


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    method=st.sampled_from(["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "FOO"]), path=st.text(max_size=20)
)
def test_a_request_of_any_method_needs_a_valid_form(shut: Visitor, method: str, path: str) -> None:
    answer = shut.client.request(method, f"/{re.sub('[^a-z/]', '', path)}", headers={"origin": ORIGIN})

    assert answer.status_code in (400, 403)


@pytest.fixture
def shut(desk: Desk) -> Visitor:
    return Visitor(desk).enter()


# Each answer


@pytest.mark.parametrize(
    "ask",
    [
        lambda visitor: visitor.get("/search"),
        lambda visitor: visitor.get("/settlements/x"),
        lambda visitor: visitor.get("/no/such/page"),
        lambda visitor: visitor.get("/", host="evil.example"),
        lambda visitor: visitor.get("/accounts/alice/statement.csv"),
        lambda visitor: visitor.get("/search?account=alice"),
        lambda visitor: visitor.send("/search"),
    ],
)
def test_each_answer_forbids_scripts_frames_and_caching(desk: Desk, ask: Callable[[Visitor], object]) -> None:
    answer = ask(Visitor(desk).enter())

    headers = answer.headers  # type: ignore[attr-defined]
    policy = dict(part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";"))
    assert policy.pop("style-src").startswith("'sha256-")
    assert policy == {
        "default-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
    }
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers
