"""Each reader names each malformed row, puts it aside, and goes on."""

import json
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from handlers import _dependencies
from handlers.core.recover_stalled import PARTITIONS
from handlers.orders import take_order
from handlers.payouts import _orders
from handlers.payruns import _orders as _of_runs
from handlers.reading import read_settlements
from settle import cli, instants
from settle.console import app as console
from settlement.accounts.order import OrderKind
from settlement.aws import queues as _queues
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import SettlementError
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status
from settlement.core.model.stored import MalformedRow
from settlement.core.model.timestamps import timestamp
from settlement.core.policy import compensation
from settlement.core.store.wire import to_wire
from settlement.events import ordered_topic as _ordered_topic
from settlement.events import outcome_bus as _outcome_bus
from tests.settle.conftest import Command
from tests.settle.desk import Desk, call
from tests.settle.reports.test_report_queue import CloudWatch
from tests.settle.spoilt import spoilt, under
from tests.settle.visitor import Visitor
from tests.world import posting, reading
from tests.world.constants import WIRE
from tests.world.environment import NOW
from tests.world.orders import request
from tests.world.rooms import is_there, there
from tests.world.services import Bus, OrderedTopic, Queues
from tests.world.stream import record

SHOP = "merchant.shop"
SETTLED, FLYING, STUCK = "order-settled-0001", "order-flying-00001", "order-stuck-000001"
DECLARED = {0, 1, 2, 3, 4, 5, 6, 7}
Planted = dict[str, Row]
REASON = ("--reason", "the row is as it is")


@pytest.fixture
def town(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Payments in flight, settled, stuck and to a merchant; the functions' messages are recorded."""
    monkeypatch.setattr(instants, "now", lambda: NOW + timedelta(minutes=30))
    for module, client in ((_queues, Queues()), (_outcome_bus, Bus()), (_ordered_topic, OrderedTopic())):
        monkeypatch.setattr(module, "_client", client)
    desk.stack.clients["cloudwatch"] = CloudWatch()
    opening = {"key": "open-the-merchant", "order": "open", "account": SHOP, "currency": "EUR"}
    call("TakeOrder", request("open", opening | {"reason": "opens"}, "olga"))
    desk.stuck(key=STUCK)
    desk.pay(SETTLED)
    for key in there("merchants", "order-merchant-001"):
        desk.pay(key, payee=SHOP)
    desk.pay(FLYING, "hold")
    return desk


def plant(desk: Desk, key: str, *, exhaustive: bool = False) -> Planted:
    """Put all malformed copies of a settlement's row; return them by key."""
    first, found = int.from_bytes(key.encode()) % 9 * 1000, Planted()
    for number, (_, one) in enumerate(spoilt(desk.row(key), exhaustive=exhaustive)):
        row = under(one, first + number)
        desk.ledger.put(row)
        found[keys.subject(row)[1]] = row
    return found


def raw(desk: Desk, key: str) -> Any:
    key_of = to_wire(keys.settlement(key))
    return desk.ledger.client.get_item(TableName=desk.ledger.table_name, Key=key_of)["Item"]


def is_broken(row: Row) -> bool:
    try:
        state = SettlementState.from_row(row)
        if state.status is Status.LIMBO:
            compensation.stuck_case(state)
    except MalformedRow:
        return True
    return bool(_wrong(row))


LISTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "list": (FLYING, ("--in-flight", "--limit", "900")),
    "list --limbo": (STUCK, ("--limbo", "--limit", "900")),
    "list --since": (SETTLED, ("--since", "1h", "--limit", "900")),
    "limbo list": (STUCK, ()),
}


@pytest.mark.parametrize(("reader", "key", "options"), [(name, *how) for name, how in LISTS.items()])
def test_a_list_names_each_malformed_row_beside_good_ones(
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
    quiet = [_wrong(planted[name]) for name in broken & lines.keys() if "unreadable" not in lines[name]]
    assert quiet == []
    assert code == 1
    assert [name for name in broken & lines.keys() if f"SETTLEMENT#{name}: " not in err] == []
    for as_text in ((), ("--csv",)):
        code, out, _ = command(*words, *options, *as_text)
        assert (code, [name for name in (key, *broken & lines.keys()) if name not in out]) == (1, [])


def _wrong(row: Row) -> str:
    try:
        SettlementState.from_row(row).settlement.exponent(_dependencies.config)
    except MalformedRow as malformed:
        return str(malformed)
    return ""


def _has_left(row: Row) -> bool:
    """Return whether the row lacks the attribute that its list needs."""
    return not isinstance(row.get("claimed_at"), str)


@pytest.mark.parametrize("verb", ["resolve", "propose", "approve", "withdraw"])
def test_deciding_many_cases_leaves_out_unreadable_ones(town: Desk, command: Command, verb: str) -> None:
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


def test_the_queue_and_the_watch_name_malformed_rows(town: Desk, command: Command, tmp_path: Path) -> None:
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
def test_listing_settlements_by_status_names_malformed_rows(town: Desk, status: str, key: str) -> None:
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


def test_a_malformed_row_does_not_end_a_recovery_run(town: Desk) -> None:
    plant(town, STUCK), plant(town, FLYING)
    forged = town.row(FLYING) | keys.settlement("order-without-time") | {"gsi1sk": "0"}
    town.ledger.put(forged)

    for partition in PARTITIONS:
        assert call("RecoverStalled", {"partition": partition}) is None


@pytest.mark.parametrize("key", [SETTLED, STUCK])
def test_a_malformed_event_is_put_aside_and_the_next_sent(town: Desk, key: str) -> None:
    planted = {name: row for name, row in plant(town, key).items() if is_broken(row)}
    good = to_wire(town.row(key))
    before = {**good, "status": {"S": "COMPENSATING"}}
    images = [to_wire(row) for row in planted.values()]
    batch = [record({**one, "status": {"S": "COMPENSATING"}}, one, at=0) for one in images]

    assert call("PublishEvents", {"Records": [*batch, record(before, good, at=0)]}) is None
    call("PublishEvents", {"replay": [key, *planted]})

    told = {one["subject"] for one in _outcome_bus._client.taken}
    assert key in told
    aside = {json.loads(one["body"])["key"] for one in _queues._client.sent}
    # An event has no stuck step.
    assert {name for name, row in planted.items() if "stuck_step" in row or key == SETTLED} <= aside


SINGLES: dict[str, Callable[[str], tuple[str, ...]]] = {
    "status": lambda key: (key,),
    "wait": lambda key: (key, "--timeout", "0"),
    "recover": lambda key: (key,),
    "report": lambda key: (key, "-o", f"{tempfile.mkdtemp()}/report.html"),
    "limbo show": lambda key: (key,),
    "limbo resolve": lambda key: (key, "retry", *REASON),
    "limbo propose": lambda key: (key, "write-off", *REASON),
    "limbo approve": lambda key: (key, "retry", "--case", "1", "--amount", "1.00", "--digest", "0" * 64),
    "limbo withdraw": lambda key: (key, "retry", "--digest", "0" * 64),
    "reverse": lambda key: (key, *REASON),
}


@pytest.mark.parametrize(
    "key",
    [STUCK, pytest.param(SETTLED, marks=pytest.mark.long), pytest.param(FLYING, marks=pytest.mark.long)],
)
def test_a_command_on_a_malformed_row_names_it_and_refuses(town: Desk, command: Command, key: str) -> None:
    planted = plant(town, key)
    wrong = list[Any]()

    for name, row in planted.items():
        for words, options in SINGLES.items():
            before = raw(town, name)
            code, out, err = command(*words.split(), *options(name))
            is_refused = code != 0 and name in err and len(err.splitlines()) <= 2
            is_same = raw(town, name) == before
            is_told = words in ("status", "wait", "report")  # also of a case without its stuck step
            must_refuse = bool(_wrong(row)) if is_told else is_broken(row)
            must_refuse &= (words, key) != ("recover", SETTLED)  # for which there is nothing to do
            if code not in DECLARED or (must_refuse and not (is_refused and is_same)):
                wrong.append(f"{words} {name}: {code} {out[:60]} {err[:200]} {_wrong(row)}")

    assert "\n".join(wrong) == ""


def orders_about(key: str) -> Iterator[tuple[str, dict[str, Any]]]:
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
def test_http_calls_about_malformed_rows_return_row_damaged(town: Desk, key: str) -> None:
    planted = plant(town, key)
    wrong = list[Any]()

    for name, row in planted.items():
        before = raw(town, name)
        answers = {
            "read": call("ReadSettlements", reading.outcome(name)),
        }
        if is_there("doors"):
            answers["cancel"] = call("CancelSettlement", posting.cancel(key=name))
            answers["accept"] = call("AcceptSettlements", posting.asked(key=name))
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
        if raw(town, name) != before:
            wrong.append(("written", name, before))

    assert wrong == []


MACHINES = ("PrepareAlert", "AwaitResolution", "ResolveLimbo", "ReclaimFunds", "VoidHold", "RefundFee")


def test_a_machine_function_raises_a_declared_error_for_malformed_rows(town: Desk) -> None:
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


def spoil_orders(desk: Desk) -> dict[str, str]:
    """Put malformed copies of each kind of order; return their names and faults."""
    call("TakeOrder", request("reverse", {"key": SETTLED, "reason": "sent back"}, "olga"))
    orders = [row for row in desk.ledger.rows() if str(row.get("gsi1pk", "")).startswith(keys.ORDERS)]
    assert {keys.subject(row)[0] for row in orders} == {"ORDER", "EVIDENCE"}
    found = {}
    for kind, row in {(keys.subject(row)[0], row.get("order", "")): row for row in orders}.items():
        for number, (what, one) in enumerate(spoilt(row, exhaustive=False)):
            name = f"order-spoilt-{kind[0].lower()}{kind[1][:2]}{number:03}"
            place = keys.order(name) if kind[0] == "ORDER" else keys.evidence(name, str(row["step"]))
            desk.ledger.put(one | place)
            found[name] = what
    return found


def concerns(what: str, *names: str) -> bool:
    """Return whether an invalid attribute is one of `names`, or is never read."""
    return not {"signature", "expires_at", *names}.isdisjoint(what.split())


def test_the_audit_names_malformed_orders_of_every_person(town: Desk, command: Command) -> None:
    proof = ("user_id", "request_id", "source_ip", "request_hash")  # which an order may lack
    planted = {
        name: what
        for name, what in spoil_orders(town).items()
        if not concerns(what, *(proof if what.startswith("without") else ()))
    }
    since = ("--since", "2026-11-20T00:00:00Z", "--until", timestamp(NOW + timedelta(minutes=29)))

    code, out, err = command("audit", *since, "--by", "nobody", "--json")
    every = command("audit", *since, "--json")
    page = Visitor(town).enter().page("/search?by=&since=2026-11-20T00:00:00Z")

    lines = {one["key"]: one for one in map(json.loads, out.splitlines())}
    assert (code, every[0]) == (1, 1)
    assert [what for name, what in planted.items() if name not in lines or name not in page] == []
    assert all(one["unreadable"] in err for one in lines.values())
    good = {one["key"] for one in map(json.loads, every[1].splitlines()) if "unreadable" not in one}
    assert {SETTLED, "open-the-merchant"} <= good
    for how in ((), ("--csv",)):
        code, out, _ = command("audit", *since, *how)
        assert (code, [name for name in planted if name not in out]) == (1, [])


def spoil_entries(desk: Desk, account: str) -> list[str]:
    """Put malformed copies of an entry into an account's statement; return their sort keys."""
    partitions = keys.entry_partitions(account)
    good = next(row for row in desk.ledger.rows() if row["pk"] in partitions and row["step"] != "deposit")
    found = []
    for number, (what, row) in enumerate(spoilt(good, exhaustive=False)):
        if concerns(what, *(("debit", "credit", "request_hash") if what.startswith("without") else ())):
            continue
        key = f"order-spoilt-e{number:03}"
        sort_key = f"{good['posted_at']}#{key}:{good['step']}"
        desk.ledger.put(row | {"sk": sort_key})
        found.append(sort_key)
    return found


@pytest.mark.parametrize("account", ["alice", "fees:EUR", *there("merchants", SHOP)])
def test_a_statement_names_malformed_entries_and_shows_the_others(
    town: Desk, command: Command, account: str
) -> None:
    before = reading.answer(call("ReadSettlements", reading.entries(account, limit="100"))).content["entries"]
    planted = spoil_entries(town, account)

    told = reading.answer(call("ReadSettlements", reading.entries(account, limit="100"))).content
    listed = reading.answer(call("ReadSettlements", reading.listing(account=account))).content
    code, out, err = command("account", "show", account, "--json")
    visitor = Visitor(town).enter()
    page = visitor.page(f"/accounts/{account}")

    assert (told["entries"], before != []) == (before, True)
    assert [name for name in planted if name not in {one["row"] for one in told["unreadable"]}] == []
    assert listed["settlements"]
    assert (code, len(json.loads(out)["entries"])) == (1, len(before))
    assert [name for name in planted if name not in err or name not in page] == []
    assert visitor.get(f"/accounts/{account}/statement.csv").status_code == 200


def test_nobody_approves_a_malformed_proposal_and_its_case_stays_listed(town: Desk, command: Command) -> None:
    body = {"key": STUCK, "case": 1, "decision": "write-off", "reason": "so it is"}
    call("TakeOrder", request("write-off/propose", body, "olga"))
    good, row = town.ledger.row(keys.proposal(STUCK)), town.row(STUCK)
    assert good
    planted = {}
    for number, (what, one) in enumerate(spoilt(good, exhaustive=False)):
        left = ("approvals", "approved_by", "approved_in") if what.startswith("without") else ()
        if concerns(what, *left) or what == "persons is a set":
            continue
        name = f"order-spoilt-p{number:03}"
        town.ledger.put(row | keys.settlement(name))
        town.ledger.put(one | keys.proposal(name))
        planted[name] = what

    code, out, _ = command("limbo", "list", "--json")
    dry = command("limbo", "approve", "write-off", "--all-of", "InsufficientFunds", "--json")
    page = Visitor(town).enter().page("/")

    lines = {one["key"]: one for one in json.loads(out)}
    assert (code, "unreadable" in lines[STUCK]) == (1, False)
    assert [what for name, what in planted.items() if "unreadable" not in lines[name]] == []
    assert [what for name, what in planted.items() if f"PROPOSAL#{name}" not in page] == []
    assert planted.keys() & {one["key"] for one in json.loads(dry[1])["cases"]} == set()
    for name, what in planted.items():
        shown = {"decision": "write-off", "case": 1, "amount": "47.72", "digest": good["seen"]}
        answer = call("TakeOrder", request("write-off/approve", {"key": name, **shown}, "paul"))
        assert answer["statusCode"] in (409, 503), (what, answer)
        assert command("limbo", "show", name)[0] in DECLARED


@pytest.mark.parametrize(
    "spoil", [{"state": 7}, {"opened_at": "noon"}, {"failed_at": Decimal("1.5")}], ids=str
)
def test_a_malformed_circuit_row_does_not_break_watch_or_console(
    town: Desk, command: Command, spoil: dict[str, Any]
) -> None:
    town.ledger.put({**keys.circuit("kyc"), "state": "OPEN", "opened_at": 1_763_640_000} | spoil)

    code, out, _ = command("watch", "--once")

    assert (code, "UNREADABLE" in out) == (0, True)
    assert Visitor(town).enter().get("/").status_code == 200


COMMANDS = {
    *(name.partition(" --")[0] for name in (*LISTS, *SINGLES)),
    *("watch", "audit", "account show", "events replay", *there("merchants", "account sweep")),
}

ELSEWHERE = {
    "reconcile": "proof/test_reconciliation_malformed.py",
    "journal entries": "test_journal_entries.py",
    "journal fill": "test_sealed_journal.py",
    "restore plan": "test_restore_plan.py",
    "kyc status": "test_circuit.py",
    **{f"statement {one}": "bank/test_on_record.py" for one in ("list", "show", "unmatched")},
    **{f"statement {one}": "bank/test_on_record.py" for one in ("propose", "book")},
    "statement compare": "test_statement_command.py",
    **{f"payout {one}": "payouts/test_payout_status.py" for one in ("status", "list")},
    "payout report": "payouts/test_payout_report.py",
    **{f"payout {one}": "payouts/test_payout_decide.py" for one in ("ask", "propose", "approve")},
    **{f"payee {one}": "payouts/test_payee.py" for one in ("show", "confirm", "freeze")},
    "payrun propose": "payruns/test_payrun_propose.py",
    **{
        f"payrun {one}": "payruns/test_payrun_decide.py"
        for one in ("status", "list", "wait", "approve", "run", "pause", "cancel")
    },
    **{f"payrun {one}": "payruns/test_payrun_results.py" for one in ("results", "report")},
    "check status": "checks/test_of_stack.py",
    **{f"migrate {one}": "test_migrate.py" for one in ("plan", "run", "pause", "verify")},
    **{
        f"ledger {one}": "tests/books"
        for one in there("books", "migrate", "project", "follow", "verify", "rebuild", "close", "put-aside")
    },
}
"""Commands that another file tests with malformed rows."""

BY_ORDER = {f"account {one}" for one in ("open", "deposit", "withdraw", "freeze", "unfreeze", "close")}
"""Commands that order something on an account, answered by the orders API."""

WITHOUT_ROWS = {
    *("start", "console", "explain", "permissions", "preflight", "acceptance", "demo"),
    *("events tail", "kyc probe", "check list", "check new", "check prove", "payout start", "payee add"),
}


def _names(group: Any, prefix: str = "") -> Iterator[str]:
    for name, one in group.commands.items():
        yield from _names(one, f"{prefix}{name} ") if hasattr(one, "commands") else [f"{prefix}{name}"]


def test_each_command_that_reads_rows_is_tested_with_malformed_ones() -> None:
    known = {*COMMANDS, *ELSEWHERE, *BY_ORDER, *WITHOUT_ROWS}
    named = {name for name in _names(cli.command()) if not name.startswith("local ")}

    assert (named - known, known - named) == (set(), set())


def test_each_route_and_page_is_tested_with_malformed_rows() -> None:
    about = {route for route, _ in orders_about(STUCK)}
    # A sweep, a booking, payouts and pay runs have tests; the others read no row of a list.
    others = {*there("merchants", "sweep"), "propose-lines", "book-lines", "probe", "replay", *OrderKind}
    others |= {*there("payouts", *_orders.ORDERS), *_of_runs.ORDERS}

    assert {route.partition("/")[0] for route in about} | others == take_order.ROUTES.keys()
    assert {route.partition("/")[2] for route in about} - {""} == take_order.MOVES.keys()
    assert read_settlements.ROUTES.keys() == {
        *("GET /settlements/{key}", "GET /settlements", "GET /accounts/{id}/entries"),
        "GET /journal",  # which reads the sealed journal, and no row
    }
    assert {path for path in console._PAGES if "decide" not in path} == {
        *("/", "/search", "/settlements/{key}", "/accounts/{account}", "/accounts/{account}/statement.csv"),
        "/bank",  # see test_an_unreadable_bank_row_leaves_the_comparison_not_proven
    }


def test_a_console_page_on_a_malformed_settlement_names_it(town: Desk) -> None:
    visitor = Visitor(town).enter()
    for name, row in plant(town, STUCK).items():
        for path in ("", "/decide", "/decide/write-off?verb=resolve"):
            answer = visitor.get(f"/settlements/{name}{path}")
            assert answer.status_code in (200, 404, 409, 502), (path, row, answer.text)
            if _wrong(row):
                assert (answer.status_code, f"SETTLEMENT#{name}" in answer.text) == (502, True)
