import pytest

from settle.actions.start import Ended
from settle.local.demo import report
from settle.local.demo.cost import Cost
from settle.local.demo.settlements import Settled, describe
from settle.machines import Machine
from settle.output import tables

REQUEST = {"key": "order-1", "payer": "alice.run", "payee": "bob.run", "amount": "48.20", "currency": "EUR"}
OUTCOME = {"status": "SETTLED", "replayed": False, "failure": None}
FAILURE = {"step": "hold", "error": "InsufficientFunds", "cause": "too little"}
COSTS = {"an-execution": Cost(calls=5, write_units=26.0, read_units=0.5)}


def settled(**outcome: object) -> Settled:
    return Settled(Machine.EXPRESS, REQUEST, Ended("order-1", "an-execution", OUTCOME | outcome))


@pytest.mark.parametrize(
    ("one", "ending"),
    [
        (settled(), "SETTLED"),
        (settled(replayed=True), "SETTLED (replayed)"),
        (settled(status="REJECTED", failure=FAILURE), "REJECTED: InsufficientFunds"),
        (
            Settled(Machine.STANDARD, REQUEST, Ended("order-1", "e", None, "IdempotencyConflict", "used")),
            "refused: IdempotencyConflict",
        ),
    ],
)
def test_each_line_of_the_demo_tells_how_it_ended(
    capsys: pytest.CaptureFixture[str], one: Settled, ending: str
) -> None:
    report._settlements(describe([one], COSTS))

    line = next(line for line in capsys.readouterr().out.splitlines() if "alice" in line)
    for part in (str(one.machine), "order-1", "alice → bob", "48.20 EUR", ending):
        assert part in line


def test_the_demo_tells_what_each_execution_cost(capsys: pytest.CaptureFixture[str]) -> None:
    report._settlements(describe([settled()], COSTS))

    line = next(line for line in capsys.readouterr().out.splitlines() if "alice" in line)
    assert line.split()[-3:] == ["5", "26.0", "0.5"]


@pytest.mark.parametrize(
    ("faults", "unproven", "verdict"),
    [([], [], "conserved"), (["a: b"], [], "NOT CONSERVED"), ([], ["a: b"], "NOT PROVEN")],
)
def test_the_last_line_is_the_verdict(
    capsys: pytest.CaptureFixture[str], faults: list[str], unproven: list[str], verdict: str
) -> None:
    tables.findings(
        {
            "conserved": not faults and not unproven,
            "accounts": 2,
            "settlements": 1,
            "entries": 5,
            "in_flight": 0,
            "currencies": {"EUR": {"customers": "1.00", "external": "-1.00", "sum": "0.00"}},
            "faults": faults,
            "unproven": unproven,
        },
        as_json=False,
    )

    first, *others, last = capsys.readouterr().out.splitlines()
    assert first == "EUR: customers 1.00 + external -1.00 = 0.00"
    assert others == [f"FAULT {fault}" for fault in faults] + [f"UNPROVEN {row}" for row in unproven]
    assert last == f"{verdict}: 2 accounts, 1 settlements, 5 entries, 0 in flight"


@pytest.mark.parametrize(("conserved", "verdict"), [(True, "conserved"), (False, "NOT CONSERVED")])
def test_each_payment_of_the_outage_is_a_line_and_the_last_line_is_the_verdict(
    capsys: pytest.CaptureFixture[str], conserved: bool, verdict: str
) -> None:
    fails = {
        "provider": "fails",
        "key": "demo-outage-1",
        "answered_after": "0.4 s",
        "calls": 3,
        "outcome": "COMPENSATED",
        "error": "KycUnavailable",
        "circuit": "OPEN",
    }
    is_back = {**fails, "provider": "is back", "key": "demo-outage-2", "outcome": "SETTLED", "error": None}

    report._outage({"payments": [fails, is_back], "returned": "9.00 EUR of 9.00 EUR", "conserved": conserved})

    lines = capsys.readouterr().out.splitlines()
    (first,) = (line.split() for line in lines if "demo-outage-1" in line)
    (second,) = (line.split() for line in lines if "demo-outage-2" in line)
    assert first == ["fails", "demo-outage-1", "0.4", "s", "3", "COMPENSATED", "KycUnavailable", "OPEN"]
    assert second == ["is", "back", "demo-outage-2", "0.4", "s", "3", "SETTLED", "OPEN"]
    assert lines[-2] == f"the payer was refunded 9.00 EUR of 9.00 EUR meanwhile; {verdict}"
