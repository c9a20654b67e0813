from dataclasses import replace

import pytest

from settlement.core.model.stage_config import StageConfig
from settlement.core.model.stored import MalformedRow
from settlement.payouts import told
from settlement.payouts.payout import State, Status
from tests.unit.payouts.rows import ADA, BEA, CASES, PAYOUT, STATES

DECIDED = {
    "case": "1",
    "verdict": "paid",
    "reason": "a letter",
    "by": ADA.by,
    "approved_by": BEA.by,
    "digest": "5c" * 32,
}


def decided() -> State:
    return replace(STATES[Status.PAID], decided=DECIDED)


def test_an_answer_shows_the_verdict_but_not_who_decided(config: StageConfig) -> None:
    assert told.of_state(decided(), config)["decided"] == {"case": "1", "verdict": "paid"}


def test_an_event_has_no_decision(config: StageConfig) -> None:
    found = told.of_state(decided(), config)

    assert told.of_event(decided(), config) == {name: found[name] for name in found if name != "decided"}


@pytest.mark.parametrize("kind", CASES)
def test_an_event_has_the_case_without_its_digest(config: StageConfig, kind: str) -> None:
    found = told.of_state(CASES[kind], config)["case"]

    assert found["digest"] == CASES[kind].digest
    assert told.of_event(CASES[kind], config)["case"] == {
        name: found[name] for name in found if name != "digest"
    }


def test_a_currency_that_the_stage_lacks_is_named(config: StageConfig) -> None:
    state = replace(STATES[Status.PAID], payout=replace(PAYOUT, currency="XTS"))

    with pytest.raises(MalformedRow, match=f"^PAYOUT#{PAYOUT.key}: currency is 'XTS'"):
        told.of_state(state, config)
