from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from settle.exit_codes import Exit
from settle.orders import proposing as proposal
from settle.reports import queue
from settle.reports.page import render
from settlement.core.model.orders import Decision
from tests.settle.conftest import Command
from tests.settle.desk import Desk
from tests.settle.reports.test_report import local, parsed, texts
from tests.world.constants import KEY
from tests.world.environment import NOW
from tests.world.step_functions import client_error

AT = NOW + timedelta(hours=2)
FLYING = "order-flying-0001"


class CloudWatch:
    """CloudWatch with figures of the scheduled proofs, or with a failure to raise."""

    def __init__(self) -> None:
        self.points: dict[str, list[dict[str, Any]]] = {}
        self.failure: Exception | None = None

    def get_metric_statistics(self, **asked: Any) -> dict[str, Any]:
        assert (asked["Namespace"], asked["Dimensions"]) == (
            "Settlement",
            [{"Name": "service", "Value": "under-test"}],
        )
        assert (asked["EndTime"] - asked["StartTime"]).total_seconds() / asked["Period"] <= 1_440, (
            "AWS's limit"
        )
        if self.failure:
            raise self.failure
        return {"Datapoints": self.points.get(asked["MetricName"], [])}


@pytest.fixture(autouse=True)
def cloudwatch(desk: Desk) -> CloudWatch:
    desk.stack.clients["cloudwatch"] = CloudWatch()
    found: CloudWatch = desk.stack.clients["cloudwatch"]
    return found


def cells(text: str, caption: str) -> Iterator[list[str]]:
    for table in parsed(text).iter():
        if local(table) == "table" and "".join(table[0].itertext()).startswith(caption):
            for row in table[2]:
                yield ["".join(cell.itertext()) for cell in row]


def test_the_report_of_an_empty_queue_says_so(desk: Desk) -> None:
    shown = texts(render.queue(queue.describe(desk.stack, AT)))

    for told in (
        "No settlement is in LIMBO.",
        "No settlement is in flight.",
        "No proposal waits.",
        "in time",
    ):
        assert told in shown
    assert "no scheduled proof within 3 days" in shown


def test_each_line_of_the_queue_has_age_and_next_command(desk: Desk) -> None:
    desk.stuck()
    desk.pay(FLYING, until="hold")

    told = queue.describe(desk.stack, AT)
    text = render.queue(told)

    (case,) = cells(text, "Open cases")
    assert case[1:4] == [KEY, "1", "compensate:releasebob"]
    assert case[4:6] == ["47.72 EUR", "InsufficientFunds"]
    assert case[-1] == f"settle limbo show {KEY} --stack under-test"
    assert case[0] == "1 h 59 min before"
    (flying,) = cells(text, "Settlements in flight")
    assert flying[1:4] == [FLYING, "PROCESSING", "hold"]
    assert flying[5:7] == ["1 h 59 min before", "1 h 44 min before"]
    assert flying[-1] == f"settle recover {FLYING} --stack under-test"
    assert told["recovery_behind_seconds"] > 7_000
    assert f"{told['recovery_behind_seconds']} s behind" in texts(text)


def test_before_the_deadline_the_queue_suggests_only_the_status_command(desk: Desk) -> None:
    desk.pay(FLYING, until="hold")

    told = queue.describe(desk.stack, NOW + timedelta(seconds=10))

    assert [one["next"] for one in told["in_flight"]["lines"]] == [
        f"settle status {FLYING} --stack under-test"
    ]
    assert told["recovery_behind_seconds"] == 0


def test_the_bars_count_cases_by_age_and_have_a_text(desk: Desk) -> None:
    desk.stuck()

    told = queue.describe(desk.stack, AT)
    text = render.queue(told)

    assert [one["count"] for one in told["limbo"]["ages"]] == [0, 0, 0, 0, 1, 0, 0, 0]
    sparks = [one for one in parsed(text).iter() if local(one) == "svg"]
    assert [one.get("role") for one in sparks] == ["img"], "none of the empty part"
    assert "1 under 4h" in (sparks[0].get("aria-label") or "")
    assert len([one for one in sparks[0] if float(one.get("height", "0")) > 1]) == 1


def cards(text: str) -> dict[str, list[str]]:
    return {
        "".join(card[0].itertext()): ["".join(one.itertext()) for one in card[1:]]
        for one in parsed(text).iter()
        if one.get("class") == "cards"
        for card in one
    }


def test_the_cards_sum_the_amounts_at_risk_by_currency(desk: Desk) -> None:
    desk.stuck()
    told = queue.describe(desk.stack, AT)
    (case,) = told["limbo"]["lines"]
    more = [case | {"amount_at_risk": "0.30"}, case | {"amount_at_risk": "500", "currency": "JPY"}]
    spoilt = case | {"amount_at_risk": None, "currency": None}

    shown = cards(render.queue(told))

    assert shown["at risk"] == ["47.72 EUR"]
    assert shown["oldest case"] == ["1 h 59 min before"]
    assert queue._at_risk([case, *more, spoilt]) == ["48.02 EUR", "500 JPY"]


@pytest.mark.parametrize(
    ("seconds", "bar"), [(0, 0), (59, 0), (60, 1), (899, 2), (900, 3), (604_799, 6), (604_800, 7), (10**8, 7)]
)
def test_each_case_counts_in_exactly_one_age_bar(seconds: int, bar: int) -> None:
    since = (AT - timedelta(seconds=seconds)).isoformat()

    ages = queue._ages([{"since": since}, {"since": None}], AT)

    assert [one["count"] for one in ages].index(1) == bar
    assert sum(one["count"] for one in ages) == 1


@pytest.mark.usefixtures("two_persons")
def test_a_settled_payments_proposal_is_shown_with_its_approval_command(desk: Desk) -> None:
    desk.pay("order-settled-001")
    desk.stuck("hold")
    reversal = proposal.propose(desk.stack, "order-settled-001", None, "sent back")

    told = queue.describe(desk.stack, AT)["proposals"]

    assert [one["key"] for one in told] == ["order-settled-001"]
    assert told[0]["command"] == reversal["command"]
    (line,) = cells(render.queue(queue.describe(desk.stack, AT)), "Open proposals")
    assert line[-1] == reversal["command"]
    assert "sent back" in line


@pytest.mark.usefixtures("two_persons")
def test_a_cases_proposal_is_listed_and_shown_beside_its_case(desk: Desk) -> None:
    desk.stuck()
    made = proposal.propose(desk.stack, KEY, Decision.WRITE_OFF, "as agreed")

    text = render.queue(queue.describe(desk.stack, AT))

    (line,) = cells(text, "Open proposals")
    assert line[-1] == made["command"]
    (case,) = cells(text, "Open cases")
    assert case[-2] == "write-off, 0 of 1"


def test_the_queue_shows_the_last_proof_and_its_age(desk: Desk, cloudwatch: CloudWatch) -> None:
    def points(*values: tuple[int, float]) -> list[dict[str, Any]]:
        return [{"Timestamp": AT - timedelta(hours=hours), "Maximum": value} for hours, value in values]

    cloudwatch.points = {
        "ReconciledRows": points((25, 90.0), (1, 100.0)),
        "ReconcileFaults": points((25, 1.0), (1, 0.0)),
        "ReconcileUnproven": points((1, 2.0)),
    }

    told = queue.describe(desk.stack, AT)

    assert told["proof"]["ReconciledRows"] == 100
    assert "0 fault(s) 1 h before : 100 rows, 2 unproven" in texts(render.queue(told))


@pytest.mark.parametrize(
    "failure",
    [
        client_error("GetMetricStatistics", "AccessDenied"),
        EndpointConnectionError(endpoint_url="https://monitoring.invalid"),
    ],
    ids=["denied", "no answer"],
)
def test_without_cloudwatch_the_rest_of_the_queue_is_shown(
    desk: Desk, cloudwatch: CloudWatch, failure: Exception
) -> None:
    desk.stuck()
    cloudwatch.failure = failure

    shown = texts(render.queue(queue.describe(desk.stack, AT)))

    assert "CloudWatch gives no answer: " in shown
    assert KEY in shown


def test_a_long_queue_is_cut_and_says_so(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "LINES_MAX", 1)
    for number in (1, 2):
        desk.pay(f"order-flying-000{number}", until="hold")
        desk.stuck("nothing", f"order-stuck-0000{number}")

    shown = texts(render.queue(queue.describe(desk.stack, AT)))

    assert "Open cases, the oldest first; there are more" in shown
    assert "in LIMBO 1+" in shown
    assert "in flight 1+" in shown


def test_the_page_is_written_as_queue_html(
    desk: Desk, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.stuck()
    monkeypatch.chdir(tmp_path)

    assert command("report", "--queue") == (Exit.FINE, "queue.html\n", "")

    assert KEY in texts((tmp_path / "queue.html").read_text())
