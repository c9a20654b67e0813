import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import combinations
from pathlib import Path

import pytest

from settle.console import pages
from settle.reports import day, queue, report
from settle.reports.page import render
from settlement.core.ledger import keys
from tests.browser.conftest import Looks
from tests.settle.bank.recording import on_record
from tests.settle.desk import Desk
from tests.settle.reports.test_report_queue import CloudWatch
from tests.settle.served import Served, serving
from tests.settle.visitor import Sts
from tests.settle.ways import WAYS, Way
from tests.world.bank_files import line
from tests.world.constants import KEY
from tests.world.environment import NOW

pytestmark = pytest.mark.browser

FLYING = "order-flying-0001"
each_scheme = pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])


def later() -> datetime:
    return NOW + timedelta(hours=1)


@pytest.fixture(autouse=True)
def services(desk: Desk) -> None:
    desk.stack.clients.update(cloudwatch=CloudWatch(), sts=Sts())


@pytest.fixture
def served(desk: Desk) -> Iterator[Served]:
    with serving(desk.stack, later) as served:
        yield served


@each_scheme
def test_each_console_page_has_no_layout_or_accessibility_fault(
    desk: Desk, served: Served, look: Looks, scheme: str
) -> None:
    desk.stuck()
    desk.pay(FLYING, until="hold")
    on_record(desk, [line("70.00", text="a gift", bank_reference="B9")], NOW, day="2026-11-19")
    window = look(scheme).enter(served.address)
    paths = {
        "/": "Queue of",
        "/?live=2": "Queue of",
        f"/settlements/{KEY}": "Settlement",
        f"/settlements/{FLYING}?live=0": "Settlement",
        f"/settlements/{KEY}/decide": "Decide on",
        f"/settlements/{KEY}/decide/write-off?verb=resolve": "Decide: write-off",
        "/accounts/bob": "Account",
        "/search?status=LIMBO": "Search",
        "/search?by=": "Search",
        "/bank?since=90d": "The bank",
    }

    found = {}
    for path, heading in paths.items():
        window.go(served.origin + path)
        assert window.heading().startswith(heading)
        found[path] = window.faults() + window.cut()
        if path == "/":
            window.pictures("console-queue")

    assert {path: faults for path, faults in found.items() if faults} == {}
    assert {url.partition("/enter")[0].startswith(served.origin) for url in window.asked} == {True}


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(way, marks=pytest.mark.long if at % 4 else (), id=way.__name__)
        for at, way in enumerate(WAYS)
    ],
)
def test_the_page_of_each_kind_of_settlement_has_no_fault(
    desk: Desk, served: Served, look: Looks, way: Way
) -> None:
    way(desk)
    window = look().enter(served.address)

    window.go(f"{served.origin}/settlements/{KEY}?live=0")

    assert window.faults() + window.cut() == []
    assert window.page.inner_text(".status") == desk.row()["status"]
    told = report.describe(desk.stack, KEY, later())
    drawn = window.page.locator("svg .node.committed, svg .node.refused, svg .node.passed, svg .node.here")
    names = {one.get_attribute("id") for one in drawn.all()}
    assert names == {f"{walk.machine}.{visit.state}" for walk in told["walks"] for visit in walk.visits}


@each_scheme
def test_a_saved_report_makes_no_network_request(
    desk: Desk, look: Looks, tmp_path: Path, scheme: str
) -> None:
    desk.stuck()
    desk.pay(FLYING, until="hold")
    told = report.describe(desk.stack, KEY, later())
    files = {
        "report": render.settlement(told),
        "queue": render.queue(queue.describe(desk.stack, later())),
        "day": render.day(day.describe(desk.stack, NOW.date(), later())),
    }
    for name, text in files.items():
        (tmp_path / f"{name}.html").write_text(text)
        address = (tmp_path / f"{name}.html").as_uri()

        window = look(scheme).go(address)

        assert window.faults() + window.cut() == []
        assert window.asked == [address]
        if name == "report":
            window.pictures(name)


def test_long_texts_and_ids_of_a_row_widen_no_page(desk: Desk, served: Served, look: Looks) -> None:
    desk.stuck()
    long = "unbroken" * 60
    desk.alter(
        payer_name=long,
        reference=long,
        metadata={long: long},
        failure={"step": "compensate:release", "error": long, "cause": long},
    )
    for step in ("verify", "limbo:1"):
        row = desk.ledger.row(keys.evidence(KEY, step))
        assert row
        desk.ledger.put(row | dict.fromkeys(("reason", "reference", "provider", "error", "cause"), long))
    window = look().enter(served.address)

    found = {}
    for path in ("/", f"/settlements/{KEY}", f"/settlements/{KEY}/decide", "/accounts/bob"):
        window.go(served.origin + path)
        found[path] = window.cut()
        assert window.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path

    assert {path: cut for path, cut in found.items() if cut} == {}


def test_each_badge_has_its_own_shape_and_lightness(look: Looks, tmp_path: Path) -> None:
    """Badges stay distinguishable without colour; axe checks the contrast of their words."""
    file = tmp_path / "badges.html"
    tones = ("good", "open", "back", "bad", "stuck")
    badges = "".join(f'<span class="status {tone}">A</span>' for tone in tones)
    file.write_text(render.page("failure.html", failure={"title": "A", "what": "", "next": ""}, back=""))
    window = look().go(file.as_uri())

    shown = window.page.evaluate(
        """(badges) => {
          document.querySelector("main").innerHTML = badges;
          return [...document.querySelectorAll(".status")].map((one) =>
            [getComputedStyle(one, "::before").content, getComputedStyle(one).backgroundColor]);
        }""",
        badges,
    )

    shapes, fills = zip(*shown, strict=True)
    assert len(set(shapes)) == len(tones)
    light = [lightness(fill) for fill in fills]
    assert min(abs(one - other) for one, other in combinations(light, 2)) > 4
    assert window.faults() == []


def lightness(fill: str) -> float:
    """Return the lightness L* (0 to 100) of a colour in a browser's notation."""
    red, green, blue = (int(part) / 255 for part in re.findall(r"\d+", fill)[:3])
    linear = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in (red, green, blue))
    luminance = sum(weight * one for weight, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    return 116 * float(luminance ** (1 / 3)) - 16


def test_a_page_reloads_itself_while_its_settlement_is_in_flight(
    desk: Desk, served: Served, look: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "LIVE_SECONDS", 1)
    wire = desk.pay(FLYING, until="hold")
    window = look().enter(served.address)
    window.go(f"{served.origin}/settlements/{FLYING}")
    before = window.page.inner_text(".status")

    desk.compensate(wire)
    window.page.locator(".status", has_text="COMPENSATED").wait_for()

    assert before == "PROCESSING"
    asked = len(window.asked)
    window.page.wait_for_timeout(2_500)
    assert len(window.asked) == asked, "a settlement at rest stays as it is"


def test_a_case_can_be_decided_and_confirmed_by_keyboard_alone(
    desk: Desk, served: Served, look: Looks
) -> None:
    desk.stuck()
    window = look().enter(served.address)

    window.choose(f"Decide: {KEY}")
    assert window.faults() == []
    window.picture("console-decide")
    window.choose("Decide: write-off")
    window.tab_to("Reason")
    window.page.keyboard.type("agreed with finance")
    window.choose("Decide: write-off")
    assert window.faults() + window.cut() == []
    shown = window.page.inner_text("main")
    before = desk.row()["status"]
    window.choose("Yes: write-off case 1")

    assert "covers 47.72 EUR from losses:EUR" in shown
    assert before == "LIMBO"
    assert window.page.inner_text(".status") == "COMPENSATED"
    assert desk.entry("resolve:1")["reason"] == "agreed with finance"


def test_a_page_of_another_origin_cannot_submit_a_decision(desk: Desk, served: Served, look: Looks) -> None:
    """A page of another port can send its own form, which the guard refuses."""
    desk.stuck()
    window = look().enter(served.address)
    action = f"{served.origin}/settlements/{KEY}/decide/write-off"
    form = f'<form method="post" action="{action}"><input name="verb" value="resolve" /></form>'
    window.page.route("http://127.0.0.1:1/", lambda route: route.fulfill(body=form, content_type="text/html"))
    window.go("http://127.0.0.1:1/")

    with window.page.expect_navigation():
        window.page.evaluate("() => document.forms[0].submit()")

    assert window.heading() == "The request comes from another page"
    assert window.cut() == []
    assert desk.row()["status"] == "LIMBO"
    window.said.clear()  # the browser tells the refusal, too


def test_a_button_ends_the_session(served: Served, look: Looks) -> None:
    window = look().enter(served.address)

    window.choose("End the session")
    served.thread.join(60)

    assert window.heading() == "The session is over"
    assert window.cut() == []
    assert not served.thread.is_alive()
