import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from settle.reports import redaction, timeline
from settlement.core.ledger import forward, keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import Transfer
from settlement.core.model.errors import StepFenced, StoreUnavailable
from settlement.core.model.layout import FIRST, NEWEST, PARTS_COUNTED_BY_NAME
from settlement.core.model.saga import REVERSIBLE, SAGA, Step
from settlement.core.model.status import Status
from settlement.core.policy import compensation
from settlement.proof import legal, settlement_row
from tests.unit import states
from tests.unit.vectors import CONFIG, SETTLEMENT, slots
from tests.world import ledger
from tests.world.environment import NOW
from tests.world.saga import Saga, up_to

PROJECT = Path(__file__).parents[2]
CUT_OFF = {"Error": "Sandbox.Timedout", "Cause": "Task timed out"}

# Complete


def test_the_saga_table_lists_the_steps_in_order() -> None:
    assert list(SAGA) == list(Step)


def test_no_two_steps_share_a_name() -> None:
    named = [facts.event for facts in SAGA.values()] + [facts.state for facts in SAGA.values()]
    named += [name for facts in SAGA.values() if facts.moves for name in facts.moves[-2:]]

    assert len({*named}) == len(named)


def test_a_report_names_each_step_and_shows_its_times() -> None:
    times = {step.slot for step in Step} | {step.reversal_slot for step in REVERSIBLE}

    assert {*Step} <= timeline._NAMES.keys()
    assert {*Step} <= timeline._GAPS.keys()
    assert times <= redaction.SHOWN


def with_another_step(folder: Path) -> Path:
    """Copy the core and add a step that the saga table lacks."""
    shutil.copytree(PROJECT / "lambdas/settlement/core", folder / "settlement/core")
    (folder / "settlement/__init__.py").touch()
    saga = folder / "settlement/core/model/saga.py"
    saga.write_text(saga.read_text().replace('    FEE = "fee"\n', '    NEW = "new"\n    FEE = "fee"\n'))
    return folder


def run(folder: Path, *command: str) -> str:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder), "MYPYPATH": str(folder)}
    ended = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return ended.stdout + ended.stderr if ended.returncode else ""


def test_a_step_without_a_saga_row_fails_import_and_typecheck(tmp_path: Path) -> None:
    folder = with_another_step(tmp_path)

    assert "KeyError: <Step.NEW: 'new'>" in run(folder, "-c", "import settlement.core.model.saga")
    module = "settlement.core.policy.compensation"
    wrong = run(folder, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "-m", module)
    assert 'expected "Never"' in wrong
    assert "Step.NEW" in wrong


# A cut-off


def stopped_at(step: Step) -> dict[str, str]:
    state = states.state(**slots(up_to(step.previous())))
    return compensation.failure_of(state, CUT_OFF)


def test_a_cut_off_step_is_reported_by_its_saga_row(monkeypatch: pytest.MonkeyPatch) -> None:
    told = replace(SAGA[Step.RELEASE], cut_off=(StoreUnavailable, "release: no answer in time"))
    monkeypatch.setitem(SAGA, Step.RELEASE, told)

    assert stopped_at(Step.VERIFY)["error"] == "KycUnavailable"
    assert stopped_at(Step.RELEASE) == {
        "step": "release",
        "error": "StoreUnavailable",
        "cause": "release: no answer in time (Sandbox.Timedout)",
    }


def test_a_cut_off_at_or_after_verify_blames_the_provider() -> None:
    assert stopped_at(Step.HOLD) == {"step": "hold", "error": "Sandbox.Timedout", "cause": "Task timed out"}
    assert stopped_at(Step.RELEASE).items() >= {"step": "release", "error": "KycUnavailable"}.items()


# Movements


def test_a_step_that_moves_no_money_has_no_transfer() -> None:
    with pytest.raises(ValueError, match="verify moves no money"):
        Transfer.of(SETTLEMENT, Step.VERIFY)


# Layouts


@pytest.fixture
def verified_since_the_second_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make VerifyKyc a step of a later release, so settlements claimed earlier run without it."""
    monkeypatch.setitem(SAGA, Step.VERIFY, replace(SAGA[Step.VERIFY], since=2))
    everything = tuple(step.value for step in Step)
    without = tuple(step for step in everything if step != Step.VERIFY)
    monkeypatch.setattr(legal, "_TAKEN", {FIRST: without, 2: everything})


def claimed(layout: int) -> Saga:
    saga = Saga(ledger.in_memory(), SETTLEMENT, replace(CONFIG, row_layout=layout))
    saga.fund()
    saga.claim()
    saga.commit(Step.HOLD)
    return saga


def row_of(saga: Saga) -> Row:
    row = saga.ledger.row(keys.settlement(SETTLEMENT.key))
    assert row
    return row


def faults(row: Row) -> list[str]:
    return list(settlement_row.contradictions(row, settlement_row.settlement(row)))


def test_the_proof_and_the_table_agree_on_each_layouts_steps() -> None:
    """Proof and table are independent, so a step that one forgets is found here."""
    assert {
        layout: tuple(step.value for step, facts in SAGA.items() if facts.since <= layout)
        for layout in range(FIRST, NEWEST + 1)
    } == legal._TAKEN


def test_no_step_is_newer_than_the_layout_of_parts() -> None:
    """A reversal in part and the migration of parts replace the row's layout by that of parts.

    If a step were newer, they would have to keep the layout, or a row would seem to lack that step.
    """
    assert NEWEST == PARTS_COUNTED_BY_NAME


@pytest.mark.usefixtures("verified_since_the_second_layout")
def test_a_claim_names_its_row_layout_if_later_steps_exist() -> None:
    assert row_of(claimed(2))["layout"] == 2
    assert "layout" not in row_of(claimed(1))


def test_a_claim_names_no_row_layout_without_later_steps() -> None:
    assert "layout" not in row_of(claimed(2))


@pytest.mark.usefixtures("verified_since_the_second_layout")
def test_a_row_older_than_a_step_settles_without_it() -> None:
    saga = claimed(1)
    write = forward.advance(SETTLEMENT, Step.VERIFY, escrow_change=0, now=NOW)

    assert saga.state().following is Step.RELEASE
    with saga.writes_nothing():
        assert saga.ledger.store.update(write) == saga.state()
    saga.commit(Step.RELEASE)
    saga.commit(Step.FEE)

    assert (saga.state().status, Step.VERIFY in saga.state().steps) == (Status.SETTLED, False)
    assert saga.state().following is None


@pytest.mark.usefixtures("verified_since_the_second_layout")
def test_a_row_with_the_steps_layout_must_commit_the_step() -> None:
    saga = claimed(2)

    assert saga.state().following is Step.VERIFY
    with saga.writes_nothing(), pytest.raises(StepFenced):
        saga.commit(Step.RELEASE)
    saga.commit(Step.VERIFY)
    saga.commit(Step.RELEASE)
    assert saga.state().following is Step.FEE


@pytest.mark.usefixtures("verified_since_the_second_layout")
def test_the_proof_requires_a_step_only_in_its_layouts_rows() -> None:
    row = row_of(claimed(1)) | slots([Step.HOLD, Step.RELEASE])
    row["escrow"] = SETTLEMENT.fee

    assert [one for one in faults(row) if "order" in one] == []
    assert [one for one in faults(row | {"layout": 2}) if "order" in one] == [
        "has only ['hold', 'release'] committed, which is out of order"
    ]
    settled = row | slots([Step.FEE]) | {"status": Status.SETTLED, "escrow": 0}
    assert [one for one in faults(settled) if "verify" in one] == []
    assert any("has no finished_at, verdict, verify_at" in one for one in faults(settled | {"layout": 2}))
