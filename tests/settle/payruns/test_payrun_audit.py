"""`settle audit` of orders on runs."""

import csv
import io
import json
from typing import Any

import pytest

from settle.exit_codes import Exit
from settlement.core.ledger import keys
from tests.settle.conftest import Command
from tests.settle.desk import ADA, GRACE
from tests.settle.payruns.conftest import Runs

SINCE = ("--since", "2026-11-20T00:00:00Z")


def audited(command: Command, *more: str) -> list[dict[str, Any]]:
    code, out, err = command("audit", *SINCE, *more, "--json")
    assert (code, err) == (0, "")
    return [one for line in out.splitlines() if "payrun" in (one := json.loads(line))["order"]]


def ordered(runs: Runs) -> str:
    told = runs.propose()
    for verb in ("approve", "run", "pause", "cancel"):
        runs.order(verb, told)
    return str(told["run"])


def test_each_order_on_a_run_is_audited_with_its_person(runs: Runs, command: Command) -> None:
    run = ordered(runs)

    found = audited(command)

    names = ("propose", "approve", "run", "pause", "cancel")
    assert [(one["order"], one["by"]) for one in found] == [
        (f"{name}-payrun", GRACE if name == "approve" else ADA) for name in names
    ]
    assert {(one["key"], one["account"]) for one in found} == {(run, "alice")}
    assert (found[0]["amount"], found[0]["currency"], found[0]["reason"]) == ("59.25", "EUR", "the sellers")
    assert all(one["user_id"] and one["request_id"] and one["source_ip"] for one in found)
    assert [one["when"] for one in found] == sorted(one["when"] for one in found)


def test_the_audit_filters_run_orders_by_person_and_time(runs: Runs, command: Command) -> None:
    ordered(runs)
    second = audited(command)[1]

    assert [one["order"] for one in audited(command, "--by", "grace")] == ["approve-payrun"]
    assert audited(command, "--until", second["when"])[-1]["order"] == "propose-payrun"


def test_a_repeated_order_is_audited_once(runs: Runs, command: Command) -> None:
    told = runs.propose()
    for verb in ("approve", "run", "run", "approve", "cancel", "cancel"):
        runs.order(verb, told)

    assert [one["order"].removesuffix("-payrun") for one in audited(command)] == [
        *("propose", "approve", "run", "cancel")
    ]


@pytest.mark.parametrize("changed", [{"order": "stop"}, {"by": 7}, {"posted_at": "then"}], ids=str)
def test_a_malformed_order_is_named_and_the_others_are_shown(
    runs: Runs, command: Command, changed: dict[str, Any]
) -> None:
    run = ordered(runs)
    runs.desk.alter(keys.payrun_ordered(run, 4), **changed)

    code, out, err = command("audit", *SINCE, "--csv")

    rows = [one for one in csv.DictReader(io.StringIO(out)) if one["order"].endswith("-payrun")]
    assert (code, len(rows)) == (Exit.FAILED, 4)
    assert f"PAYRUN_DECISION#{run}" in err


def test_a_malformed_proposal_is_named_with_its_reason(runs: Runs, command: Command) -> None:
    run = ordered(runs)
    runs.desk.alter(keys.payrun_proposed(run), digest=7)

    code, out, err = command("audit", *SINCE, "--csv")

    named = [one for one in csv.DictReader(io.StringIO(out)) if one["key"] == run and not one["order"]]
    assert (code, [one["reason"] for one in named]) == (Exit.FAILED, ["the sellers"])
    assert f"PAYRUN_DECISION#{run}" in err


def test_a_foreign_attribute_does_not_stop_the_audit(runs: Runs, command: Command) -> None:
    run = ordered(runs)
    for place in (keys.payrun_ordered(run, 3), keys.payrun_ordered(run, 5)):
        runs.desk.alter(place, sums=7)

    assert [one["amount"] for one in audited(command)] == ["59.25", "", "", "", ""]


def test_orders_of_a_run_without_a_proposal_are_shown(runs: Runs, command: Command) -> None:
    run = ordered(runs)
    runs.desk.ledger.delete(keys.payrun_proposed(run))

    assert [one["account"] for one in audited(command)] == [""] * 4
