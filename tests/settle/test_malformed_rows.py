"""Each reader of rows meets each malformed row: it names the row, puts it aside, and goes on."""

import json
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from handlers import _dependencies, _ordered_topic, _outcome_bus, _queues
from handlers.recover_stalled import PARTITIONS
from settle import instants
from settlement.adapters.wire import to_wire
from settlement.ledger import keys
from settlement.ledger.keys import Row
from settlement.model.errors import SettlementError
from settlement.model.state import SettlementState
from settlement.model.status import Status
from settlement.model.stored import MalformedRow
from settlement.policy import compensation
from tests.settle.conftest import Command
from tests.settle.desk import Desk, call
from tests.settle.spoilt import spoilt, under
from tests.settle.visitor import Visitor
from tests.world import posting, reading
from tests.world.constants import WIRE
from tests.world.environment import NOW
from tests.world.orders import request
from tests.world.services import Bus, OrderedTopic, Queues
from tests.world.stream import record

SHOP = "merchant.shop"
SETTLED, FLYING, STUCK = "order-settled-0001", "order-flying-00001", "order-stuck-000001"
DECLARED = {0, 1, 2, 3, 4, 5, 6, 7}
Planted = dict[str, Row]
REASON = ("--reason", "the row is as it is")


@pytest.fixture
def town(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Payments in flight, settled, stuck and to a merchant, and what the functions tell others."""
    monkeypatch.setattr(instants, "now", lambda: NOW + timedelta(minutes=30))
    for module, client in ((_queues, Queues()), (_outcome_bus, Bus()), (_ordered_topic, OrderedTopic())):
        monkeypatch.setattr(module, "_client", client)
    opening = {"key": "open-the-merchant", "order": "open", "account": SHOP, "currency": "EUR"}
    call("TakeOrder", request("open", opening | {"reason": "opens"}, "olga"))
    desk.pay(SETTLED)
    desk.pay("order-merchant-001", payee=SHOP)
    desk.pay(FLYING, "hold")
    desk.stuck(key=STUCK)
    return desk


def plant(desk: Desk, key: str, *, exhaustive: bool = False) -> Planted:
    """Put each malformed copy of a settlement's row beside it; return the copies by their keys."""
    first, found = int.from_bytes(key.encode()) % 9 * 1000, Planted()
    for number, (_, spoiled) in enumerate(spoilt(desk.row(key), exhaustive=exhaustive)):
        row = under(spoiled, first + number)
        desk.ledger.put(row)
        found[keys.subject(row)[1]] = row
    return found


def is_broken(row: Row) -> bool:
    """Return whether nothing may be decided on a row."""
    try:
        state = SettlementState.from_row(row)
        state.settlement.exponent(_dependencies.config)
        if state.status is Status.LIMBO:
            compensation.stuck_case(state)
    except MalformedRow:
        return True
    return False


LISTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "list": (FLYING, ("--in-flight", "--limit", "900")),
    "list --limbo": (STUCK, ("--limbo", "--limit", "900")),
    "list --since": (SETTLED, ("--since", "1h", "--limit", "900")),
    "limbo list": (STUCK, ()),
}


@pytest.mark.parametrize(("reader", "key", "options"), [(name, *how) for name, how in LISTS.items()])
def test_a_list_of_settlements_names_each_malformed_row_beside_the_good_ones(
    town: Desk, command: Command, reader: str, key: str, options: tuple[str, ...]
) -> None:
    planted = plant(town, key)
    words = [word for word in reader.split() if not word.startswith("-")]

    code, out, err = command(*words, *options, "--json")

    lines = {line["key"]: line for line in json.loads(out)}
    assert "unreadable" not in lines[key]
    assert [name for name in planted if name not in lines and not _has_left(planted[name])] == []
    broken = {name for name, row in planted.items() if is_broken(row)}
    assert broken
    assert {name for name, line in lines.items() if "unreadable" in line} >= broken & lines.keys()
    assert code == 1
    assert [name for name in broken & lines.keys() if f"SETTLEMENT#{name}: " not in err] == []
    for as_text in ((), ("--csv",)):
        code, out, _ = command(*words, *options, *as_text)
        assert (code, [name for name in (key, *broken & lines.keys()) if name not in out]) == (1, [])


def _has_left(row: Row) -> bool:
    """Return whether the row says nothing by which it would be in the list."""
    return not isinstance(row.get("claimed_at"), str)


@pytest.mark.parametrize("verb", ["resolve", "propose", "approve", "withdraw"])
def test_many_cases_are_decided_without_those_that_cannot_be_read(
    town: Desk, command: Command, verb: str
) -> None:
    planted = plant(town, STUCK)
    reason = REASON if verb in ("resolve", "propose") else ()

    code, out, _ = command("limbo", verb, "retry", "--all-of", "InsufficientFunds", *reason, "--json")

    shown = json.loads(out)
    left_out = {one["key"]: one["why"] for one in shown["left_out"]}
    broken = {name for name, row in planted.items() if is_broken(row)}
    assert broken <= left_out.keys()
    assert all(f"SETTLEMENT#{name}" in left_out[name] for name in broken)
    assert STUCK in {one["key"] for one in (*shown["cases"], *shown["left_out"])}
    assert not broken & {one["key"] for one in shown["cases"]}
    assert code == 0


def test_the_queue_and_the_live_view_name_each_malformed_row(
    town: Desk, command: Command, tmp_path: Path
) -> None:
    planted = plant(town, STUCK) | plant(town, FLYING)
    broken = [name for name, row in planted.items() if is_broken(row)]
    file = tmp_path / "queue.html"

    watched = command("watch", "--once", "--json")
    assert command("report", "--queue", "-o", str(file))[0] == 0
    assert command("report", "--day", "2026-11-20", "-o", str(tmp_path / "day.html"))[0] == 0
    pages = [Visitor(town).enter().page(path) for path in ("/", "/search?status=LIMBO")]

    assert watched[0] == 0
    assert command("watch", "--once")[0] == 0
    for text, among in ((watched[1], broken), (file.read_text(), broken), (pages[0], broken)):
        assert [name for name in among if name not in text] == []
    assert [name for name in broken if planted[name]["gsi1pk"] == "LIMBO" and name not in pages[1]] == []
    assert all(STUCK in page for page in pages)


@pytest.mark.parametrize(("status", "key"), [("LIMBO", STUCK), ("PROCESSING", FLYING)])
def test_a_page_of_settlements_by_status_names_each_malformed_row(town: Desk, status: str, key: str) -> None:
    planted, found, cursor = plant(town, key), [], dict[str, str]()
    while True:
        answer = reading.answer(call("ReadSettlements", reading.listing(status=status, **cursor)))
        assert answer.status == 200
        found.append(answer.content)
        if answer.content["cursor"] is None:
            break
        cursor = {"cursor": answer.content["cursor"]}

    assert key in {one["key"] for page in found for one in page["settlements"]}
    named = {one["row"] for page in found for one in page["unreadable"]}
    broken = {f"SETTLEMENT#{name}" for name, row in planted.items() if is_broken(row)}
    unlisted = {f"SETTLEMENT#{name}" for name in planted if "stuck_step" not in planted[name]}
    assert broken - named <= unlisted  # an outcome has no stuck step
    assert named <= broken


def test_a_run_of_recovery_is_not_ended_by_a_malformed_row(town: Desk) -> None:
    plant(town, STUCK), plant(town, FLYING)
    forged = town.row(FLYING) | keys.settlement("order-without-time") | {"gsi1sk": "0"}
    town.ledger.put(forged)

    for partition in PARTITIONS:
        assert call("RecoverStalled", {"partition": partition}) is None


@pytest.mark.parametrize("key", [SETTLED, STUCK])
def test_an_event_of_a_malformed_row_is_put_aside_and_the_next_is_told(town: Desk, key: str) -> None:
    planted, good = plant(town, key), to_wire(town.row(key))
    before = {**good, "status": {"S": "COMPENSATING"}}
    images = [to_wire(row) for row in planted.values()]
    batch = [record({**one, "status": {"S": "COMPENSATING"}}, one, at=0) for one in images]

    assert call("PublishEvents", {"Records": [*batch, record(before, good, at=0)]}) is None
    call("PublishEvents", {"replay": [key, *planted]})

    told = {one["subject"] for one in _outcome_bus._client.taken}
    broken = {name for name, row in planted.items() if is_broken(row)}
    assert key in told
    aside = {json.loads(one["body"])["key"] for one in _queues._client.sent}
    assert {name for name in broken if "currency" in planted[name]} <= aside | told


SINGLES: dict[str, Callable[[str], tuple[str, ...]]] = {
    "status": lambda key: (key,),
    "wait": lambda key: (key, "--timeout", "0"),
    "recover": lambda key: (key,),
    "report": lambda key: (key, "-o", os.devnull, "--force"),
    "limbo show": lambda key: (key,),
    "limbo resolve": lambda key: (key, "retry", *REASON),
    "limbo propose": lambda key: (key, "write-off", *REASON),
    "limbo approve": lambda key: (key, "--digest", "0" * 64),
    "limbo withdraw": lambda key: (key, "--digest", "0" * 64),
    "reverse": lambda key: (key, *REASON),
}
"""The commands about one settlement."""


@pytest.mark.parametrize(
    "key",
    [STUCK, pytest.param(SETTLED, marks=pytest.mark.long), pytest.param(FLYING, marks=pytest.mark.long)],
)
def test_a_command_about_a_malformed_row_is_refused_by_its_name(
    town: Desk, command: Command, key: str
) -> None:
    planted = plant(town, key)
    wrong = list[Any]()

    for name, row in planted.items():
        for words, options in SINGLES.items():
            before = town.ledger.row(keys.settlement(name))
            code, out, err = command(*words.split(), *options(name))
            is_refused = code != 0 and name in err and len(err.splitlines()) <= 2
            is_same = town.ledger.row(keys.settlement(name)) == before
            if code not in DECLARED or (is_broken(row) and not (is_refused and is_same)):
                wrong.append((words, name, code, out, err))

    assert wrong == []


def orders_about(key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield an order on each route that is about a settlement."""
    for decision in ("retry", "write-off", "complete"):
        body = {"key": key, "case": 1, "decision": decision, "reason": "so it is"}
        yield decision, body
        yield f"{decision}/propose", body
        yield f"{decision}/break-glass", body
        yield f"{decision}/approve", {"key": key, "digest": "0" * 64}
        yield f"{decision}/withdraw", {"key": key, "digest": "0" * 64}
    yield "reverse", {"key": key, "reason": "so it is"}
    yield "reverse-part", {"key": key, "part": 1, "amount": "1.00", "reason": "so it is"}
    yield "recover", {"key": key}


@pytest.mark.parametrize("key", [STUCK, pytest.param(SETTLED, marks=pytest.mark.long)])
def test_http_about_a_malformed_row_answers_row_damaged_and_decides_nothing(town: Desk, key: str) -> None:
    planted = plant(town, key)
    wrong = list[Any]()

    for name, row in planted.items():
        before = town.ledger.row(keys.settlement(name))
        answers = {
            "read": call("ReadSettlements", reading.outcome(name)),
            "cancel": call("CancelSettlement", posting.cancel(name)),
            "accept": call("AcceptSettlements", posting.asked({**WIRE, "key": name})),
        }
        if is_broken(row):  # an order on a row that can be read may be carried out
            answers |= {
                route: call("TakeOrder", request(route, body, "olga")) for route, body in orders_about(name)
            }
        for what, answer in answers.items():
            content = json.loads(answer["body"])
            if answer["statusCode"] not in (200, 202, 400, 404, 409, 422, 503):
                wrong.append((what, name, answer))
            damaged = content.get("error") == "RowDamaged"
            if damaged and not (answer["statusCode"] == 503 and name in content["message"]):
                wrong.append((what, name, answer))
            is_answered = answer["statusCode"] in (200, 202)
            if is_broken(row) and is_answered and "stuck_step" in row:
                wrong.append((what, name, answer))
        if town.ledger.row(keys.settlement(name)) != before:
            wrong.append(("written", name, before))

    assert wrong == []


MACHINES = ("PrepareAlert", "AwaitResolution", "ResolveLimbo", "ReclaimFunds", "VoidHold", "RefundFee")


def test_a_function_of_a_machine_raises_a_declared_error_for_a_malformed_row(town: Desk) -> None:
    wrong = list[Any]()
    for name in plant(town, STUCK):
        settlement = {**WIRE, "key": name}
        event = {"settlement": settlement, "execution": "e", "execution_arn": "arn", "token": "t", "case": 1}
        event |= {"resolution": {"case": 1}, "steps": ["hold"], "claimed_at": "", "error": {"Error": "E"}}
        state = {"settlement": settlement, "alerts": 0, "execution": "e"}
        for function in MACHINES:
            try:
                call(function, event | {"state": state})
            except (SettlementError, MalformedRow):
                pass
            except Exception as fault:
                wrong.append((function, name, repr(fault)))

    assert wrong == []
