import json
import re
import shlex
import time
from collections.abc import Callable
from typing import Any

import pytest

from settle import order
from settle.accounts import accounts
from settle.door import Answer
from settle.exit_codes import Exit
from settle.orders import many
from settle.orders import many_output as output
from settle.settlements import follow
from settlement.core.model.errors import IdempotencyConflict
from tests.settle.conftest import Command, raising
from tests.settle.desk import ADA, GRACE, REASON, Desk

ONE, TWO, THREE, HELD = (f"order-many-{name}" for name in ("0000001", "0000002", "0000003", "hold-01"))
OF_BOB = ("--account", "bob")
WRITE_OFF = ("limbo", "resolve", "write-off", *OF_BOB, "--reason", REASON)
RETRY = ("limbo", "resolve", "retry", *OF_BOB, "--reason", REASON)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "_POLL_SECONDS", 0)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


@pytest.fixture
def stuck(desk: Desk) -> Desk:
    """Three payments stuck because Bob spent them, and one stuck on Alice."""
    for key in (ONE, TWO, THREE):
        desk.pay(key)
    desk.pay("order-spent-0001", payer="bob", payee="shop", amount="140.00", fee="0.00")
    for key in (ONE, TWO, THREE):
        desk.reverse("sent back", key)
    desk.stuck("hold", HELD)
    desk.broken.clear()
    accounts.open_account(desk.stack, "carol", "EUR", "500.00")
    return desk


def shown(command: Command, *arguments: str) -> dict[str, Any]:
    code, out, err = command(*arguments, "--json")
    assert (code, err) == (Exit.FINE, "")
    found: dict[str, Any] = json.loads(out)
    return found


def ordered(command: Command, told: str) -> tuple[int, dict[str, str], str]:
    """Run the command printed by a dry run; return exit code, result by key, and notes."""
    words = shlex.split(told.removesuffix(" --stack under-test"))
    assert words[0] == "settle"
    code, out, err = command(*words[1:], "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    return code, {line["key"]: line["result"] for line in lines}, err


@pytest.fixture
def told(stuck: Desk, command: Command) -> str:
    """The command to write the three cases off, as its dry run prints it."""
    return str(shown(command, *WRITE_OFF)["command"])


def statuses(desk: Desk, *keys: str) -> list[str]:
    return [desk.row(key)["status"] for key in keys]


def test_a_dry_run_shows_each_case_and_orders_nothing(stuck: Desk, command: Command) -> None:
    before, given = stuck.ledger.rows(), len(stuck.door.given)

    found = shown(command, *WRITE_OFF)
    code, text, _ = command(*WRITE_OFF)

    assert [case["key"] for case in found["cases"]] == [ONE, TWO, THREE]
    assert (found["count"], found["at_risk"]) == (3, {"EUR": "143.16"})
    assert (found["errors"], found["left_out"]) == ({"InsufficientFunds": 3}, [])
    assert re.fullmatch("3-[0-9a-f]{64}", found["seen"])
    assert found["command"] == (
        f"settle limbo resolve write-off --account bob --reason 'approved by finance'"
        f" --seen {found['seen']} --stack under-test"
    )
    assert code == Exit.FINE
    assert all(part in text for part in (ONE, TWO, THREE, "at risk: 143.16 EUR", found["command"]))
    assert (stuck.ledger.rows(), len(stuck.door.given)) == (before, given)


def test_a_case_that_forbids_the_decision_is_left_out(stuck: Desk, command: Command) -> None:
    everything = ("limbo", "resolve", "write-off", "--all-of", "IdempotencyConflict", "--reason", REASON)

    found = shown(command, *everything)
    _, text, _ = command(*everything)

    assert (found["cases"], found["seen"], found["command"]) == ([], None, None)
    assert [case["key"] for case in found["left_out"]] == [HELD]
    assert "the escrow lacks nothing" in found["left_out"][0]["why"]
    assert "left out: 1: decision: the escrow lacks nothing" in text
    assert "nothing to decide" in text


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        (OF_BOB, [ONE, TWO, THREE]),
        (("--account", "alice"), [HELD]),
        (("--all-of", "InsufficientFunds"), [ONE, TWO, THREE]),
        (("--all-of", "IdempotencyConflict"), [HELD]),
        ((*OF_BOB, "--all-of", "IdempotencyConflict"), []),
        (("--account", "shop"), []),
        ((), [ONE, TWO, THREE, HELD]),
    ],
)
def test_limbo_list_and_resolve_apply_the_same_filters(
    stuck: Desk, command: Command, options: tuple[str, ...], keys: list[str]
) -> None:
    code, out, _ = command("limbo", "list", *options, "--json")

    assert (code, [case["key"] for case in json.loads(out)]) == (Exit.FINE, keys)
    if options:
        found = shown(command, "limbo", "resolve", "retry", *options, "--reason", REASON)
        assert [case["key"] for case in found["cases"]] == keys


def test_with_the_digest_each_shown_case_is_decided_separately(
    stuck: Desk, command: Command, told: str
) -> None:
    stuck.door.throttled = len(order.PAUSES_SECONDS) + 1  # a door without room is waited for

    code, results, notes = ordered(command, told)

    assert (code, notes) == (Exit.FINE, "")
    assert results == dict.fromkeys((ONE, TWO, THREE), "COMPENSATED")
    assert [stuck.entry("resolve:1", key)["decision"] for key in (ONE, TWO, THREE)] == ["write-off"] * 3
    assert statuses(stuck, HELD) == ["LIMBO"]


def test_a_case_opened_after_the_dry_run_is_not_decided(stuck: Desk, command: Command, told: str) -> None:
    late = "order-many-late-01"
    stuck.pay(late, payer="carol")
    stuck.broken["ReclaimFunds"] = IdempotencyConflict("bob is locked")
    stuck.reverse("sent back", late)
    stuck.broken.clear()

    code, results, notes = ordered(command, told)

    assert (code, set(results)) == (Exit.FINE, {ONE, TWO, THREE})
    assert notes == "left, as they came later and were not shown: 1\n"
    assert statuses(stuck, late) == ["LIMBO"]


def one_is_decided(desk: Desk, command: Command) -> None:
    assert command("limbo", "resolve", TWO, "write-off", "--reason", "another")[0] == Exit.FINE


def one_is_stuck_again(desk: Desk, command: Command) -> None:
    assert command("limbo", "resolve", TWO, "retry", "--reason", "another")[0] == Exit.LIMBO


@pytest.mark.parametrize("change", [one_is_decided, one_is_stuck_again])
def test_a_case_changed_since_the_dry_run_prevents_all_orders(
    stuck: Desk, command: Command, change: Callable[[Desk, Command], None]
) -> None:
    found = shown(command, *WRITE_OFF)
    change(stuck, command)
    before = stuck.ledger.rows()

    code, out, err = command(*WRITE_OFF, "--seen", found["seen"], "--json")

    again = json.loads(out)
    assert (code, stuck.ledger.rows()) == (Exit.CONFLICT, before)
    assert err.startswith(
        "settle: seen: nothing is ordered: of the cases that were shown (3) some are decided"
    )
    assert again["seen"] not in (None, found["seen"])
    assert ordered(command, again["command"])[0] == Exit.FINE
    assert statuses(stuck, ONE, TWO, THREE) == ["COMPENSATED"] * 3


@pytest.mark.parametrize(
    ("other", "amount"),
    [
        pytest.param(RETRY, 4820, id="another decision"),
        pytest.param(
            ("limbo", "propose", "write-off", *OF_BOB, "--reason", REASON), 4820, id="another command"
        ),
        pytest.param(WRITE_OFF, 4000, id="another amount"),
    ],
)
def test_the_digest_of_another_dry_run_is_refused(
    stuck: Desk, command: Command, other: tuple[str, ...], amount: int
) -> None:
    seen = shown(command, *WRITE_OFF)["seen"]
    stuck.ledger.put(stuck.row(TWO) | {"amount": amount})
    before = stuck.ledger.rows()

    assert command(*other, "--seen", seen)[0] == Exit.CONFLICT
    assert stuck.ledger.rows() == before


def test_a_case_stuck_again_is_reported_while_the_others_continue(stuck: Desk, command: Command) -> None:
    stuck.pay("order-rich-00001", payer="carol", amount="93.00", fee="0.00")

    code, results, _ = ordered(command, shown(command, *RETRY)["command"])

    assert code == Exit.LIMBO
    assert sorted(results.values()) == ["COMPENSATED", "COMPENSATED", "LIMBO: stuck again, as case 2"]


def test_a_refused_case_fails_the_command_but_others_are_decided(
    stuck: Desk, command: Command, told: str
) -> None:
    send = stuck.door.send

    def overtaken(decision: str, order: dict[str, Any]) -> Answer:
        if order["key"] == TWO:
            send("retry", order | {"decision": "retry"})
        return send(decision, order)

    stuck.door.send = overtaken  # type: ignore[method-assign]
    code, results, _ = ordered(command, told)

    assert code == Exit.CONFLICT
    assert (results[ONE], results[THREE]) == ("COMPENSATED", "COMPENSATED")
    assert "StepFenced: resolve: case 1 was decided otherwise: retry" in results[TWO]


def answers(desk: Desk, answer: Answer | BaseException, *keys: str) -> None:
    send = desk.door.send

    def door(decision: str, order: dict[str, Any]) -> Answer:
        if order["key"] not in keys:
            return send(decision, order)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    desk.door.send = door  # type: ignore[method-assign]


FORBIDDEN = Answer(403, {"message": "Forbidden"})
BUSY = Answer(503, {"error": "StoreUnavailable", "message": "DynamoDB is away"})
FULL = Answer(429, {"message": "Too Many Requests"})


@pytest.mark.parametrize(
    ("answer", "why"),
    [(FORBIDDEN, "may not give this order"), (FULL, "429"), (KeyboardInterrupt(), "Ctrl-C")],
    ids=["forbidden", "no room", "Ctrl-C"],
)
def test_a_run_that_stops_early_shows_the_undecided_cases(
    stuck: Desk, command: Command, told: str, answer: Answer | BaseException, why: str
) -> None:
    send = stuck.door.send
    answers(stuck, answer, TWO)

    code, results, err = ordered(command, told)

    assert code == Exit.FAILED
    assert results == {ONE: "on record; its end was not waited for"}
    assert why in err
    assert f"1 of 3 orders were given; the order on {TWO} may be on record; see what is left with" in err
    stuck.door.send = send  # type: ignore[method-assign]
    (next_command,) = re.findall(r"see what is left with `settle (.+)`", err)
    found = shown(command, *shlex.split(next_command.removesuffix(" --stack under-test")))
    assert [case["key"] for case in found["cases"]] == [TWO, THREE]
    assert ordered(command, found["command"])[:2] == (Exit.FINE, dict.fromkeys((TWO, THREE), "COMPENSATED"))


def test_after_a_lost_answer_each_other_case_is_decided_once(
    stuck: Desk, command: Command, told: str
) -> None:
    stuck.door.losing = 1

    code, results, _ = ordered(command, told)

    assert (code, set(results)) == (Exit.FAILED, {ONE, TWO, THREE})
    assert results[ONE].startswith("write-off: not carried out, or not known to be: ReadTimeoutError")
    assert (results[TWO], results[THREE]) == ("COMPENSATED", "COMPENSATED")
    assert statuses(stuck, ONE, TWO, THREE) == ["COMPENSATED"] * 3
    assert shown(command, *WRITE_OFF)["cases"] == []
    assert {case["case"] for _, case in stuck.door.given if "case" in case} == {1}


def test_three_failures_in_a_row_stop_the_run(stuck: Desk, command: Command, told: str) -> None:
    answers(stuck, BUSY, ONE, TWO, THREE)

    code, results, err = ordered(command, told)

    assert (code, set(results)) == (Exit.FAILED, {ONE, TWO, THREE})
    assert "3 orders in a row have failed" in err


def test_a_case_that_does_not_end_is_reported_in_flight(stuck: Desk, command: Command, told: str) -> None:
    stuck.machines.runs = False

    code, results, _ = ordered(command, told)

    assert code == Exit.IN_FLIGHT
    assert results[ONE] == f"on record, and still in flight; see `settle status {ONE} --stack under-test`"


def test_ctrl_c_during_the_wait_reports_all_orders_as_given(
    stuck: Desk, command: Command, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck.machines.runs = False
    monkeypatch.setattr(follow, "FOLLOW_SECONDS_MAX", 60)

    monkeypatch.setattr(time, "sleep", raising(KeyboardInterrupt))

    code, results, err = ordered(command, told)

    assert code == Exit.FAILED
    assert set(results.values()) == {"on record; its end was not waited for"}
    assert "stopped: Ctrl-C: 3 of 3 orders were given; see what is left with" in err


@pytest.fixture
def together(stuck: Desk, two_persons: None) -> Desk:
    return stuck


def test_two_persons_decide_many_cases_with_two_commands_each(together: Desk, command: Command) -> None:
    alone = shown(command, *WRITE_OFF)
    assert {case["why"] for case in alone["left_out"]} == {"write-off: needs 2 persons"}

    proposing = shown(command, *shlex.split(alone["propose"].removesuffix(" --stack under-test"))[1:])
    code, results, notes = ordered(command, proposing["command"])
    listed = json.loads(command("limbo", "list", *OF_BOB, "--json")[1])
    again = ordered(command, proposing["command"])

    assert (proposing["persons"], code) == (2, Exit.FINE)
    assert results == again[1] == dict.fromkeys((ONE, TWO, THREE), "proposed, 0 of 1 approvals")
    assert {(case["proposed"], case["approvals"]) for case in listed} == {("write-off", "0 of 1")}
    (approve,) = re.findall(r"`?settle (limbo approve .+) --stack", notes)
    approving = shown(command, *shlex.split(approve))
    assert f"proposed: 3: write-off by {ADA}: {REASON}" in command(*shlex.split(approve))[1]
    code, refused, _ = ordered(command, approving["command"])
    assert (code, all("takes part in it" in told for told in refused.values())) == (Exit.CONFLICT, True)

    together.door.by = GRACE
    code, results, _ = ordered(command, approving["command"])

    assert (code, results) == (Exit.FINE, dict.fromkeys((ONE, TWO, THREE), "COMPENSATED"))
    assert together.entry("resolve:1", TWO)["approved_by"] == GRACE


def test_a_renewed_proposal_needs_a_new_dry_run(together: Desk, command: Command) -> None:
    propose = ("limbo", "propose", "write-off", *OF_BOB, "--reason", REASON)
    ordered(command, shown(command, *propose)["command"])
    seen = shown(command, "limbo", "approve", "write-off", *OF_BOB)["seen"]
    withdrawing = shown(command, "limbo", "withdraw", "write-off", *OF_BOB)
    code, results, _ = ordered(command, withdrawing["command"])
    assert (code, results) == (Exit.FINE, dict.fromkeys((ONE, TWO, THREE), "withdrawn"))
    ordered(command, shown(command, *propose[:-1], "another reason")["command"])
    together.door.by = GRACE

    code, out, _ = command("limbo", "approve", "write-off", *OF_BOB, "--seen", seen, "--json")

    assert code == Exit.CONFLICT
    assert {case["reason"] for case in json.loads(out)["cases"]} == {"another reason"}
    assert statuses(together, ONE, TWO, THREE) == ["LIMBO"] * 3


def test_only_open_proposals_of_the_same_decision_are_approved(together: Desk, command: Command) -> None:
    command("limbo", "propose", ONE, "complete", "--reason", REASON)
    command("limbo", "propose", TWO, "write-off", "--reason", REASON)

    found = shown(command, "limbo", "approve", "write-off", *OF_BOB)
    proposing = shown(command, "limbo", "propose", "write-off", *OF_BOB, "--reason", REASON)

    assert [case["key"] for case in found["cases"]] == [TWO]
    assert {case["why"] for case in found["left_out"]} == {"it has no open proposal to write-off"}
    assert [case["key"] for case in proposing["cases"]] == [TWO, THREE]
    assert proposing["left_out"][0]["why"].startswith("proposal: complete is open")


SEEN = f"3-{'0' * 64}"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("resolve", ONE, "retry", *OF_BOB, "--reason", "x"), "give DECISION alone"),
        (("resolve", "retry", "--reason", "x"), "give KEY DECISION"),
        (("propose", "forget", *OF_BOB, "--reason", "x"), "must be one of"),
        (("resolve", "retry", *OF_BOB, "--reason", "x", "--case", "1"), "case: is of one case"),
        (("resolve", "retry", *OF_BOB, "--reason", "x", "--break-glass"), "break_glass: is of one case"),
        (("resolve", ONE, "retry", "--reason", "x", "--seen", SEEN), "seen: must be the digest"),
        (("resolve", "retry", *OF_BOB, "--reason", "x", "--seen", "3-abc"), "seen: must be the digest"),
        (("resolve", "retry", *OF_BOB, "--reason", "x", "--seen", ""), "seen: must be the digest"),
        (("resolve", "retry", *OF_BOB, "--reason", ""), "reason: must be one line"),
        (("resolve", "retry", *OF_BOB, "--reason", "<why>"), "reason: replace <why>"),
        (("resolve", "retry", "--account", "no account", "--reason", "x"), "account: must match"),
        (("resolve", "retry", "--account", "", "--reason", "x"), "account: must match"),
        (("approve", "write-off", *OF_BOB, "--digest", "0" * 12), "digest: is of one case"),
        (("approve", ONE, *OF_BOB), "must be one of"),
        (("approve", ONE, "write-off", *OF_BOB), "give DECISION alone"),
        (("approve", ONE, "forget"), "must be one of"),
        (("withdraw", ONE), "give KEY DECISION"),
        (("withdraw", ONE, "write-off"), "digest: missing"),
    ],
    ids=str,
)
def test_incompatible_arguments_are_refused_before_any_request(
    desk: Desk, command: Command, arguments: tuple[str, ...], told: str
) -> None:
    code, out, err = command("limbo", *arguments)

    assert (code, out) == (Exit.USAGE, "")
    assert told in " ".join(err.replace("│", "").split())


def test_results_that_cannot_be_written_are_on_standard_error(
    stuck: Desk, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = shown(command, *WRITE_OFF)["seen"]

    monkeypatch.setattr(output, "results", raising(OSError(28, "No space left on device")))
    code, _, err = command(*WRITE_OFF, "--seen", seen)

    assert (code, statuses(stuck, ONE, TWO, THREE)) == (Exit.FAILED, ["COMPENSATED"] * 3)
    assert "settle: output: No space left on device" in err
    assert all(f"{key}: " in err for key in (ONE, TWO, THREE))
