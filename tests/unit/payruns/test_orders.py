import re
from typing import Any

import pytest

from settlement.core.model.errors import InvalidRequest
from settlement.core.model.timestamps import timestamp
from settlement.payruns.orders import Rules, parse_proposal, parse_shown
from tests.unit.payruns.rows import ADA, PROPOSAL
from tests.unit.vectors import CONFIG
from tests.world.environment import NOW

RULES = Rules(over={"EUR": 58_19, "JPY": 1_000}, lines_over=3)
BODY: dict[str, Any] = {
    "digest": PROPOSAL.digest,
    "name": PROPOSAL.name,
    "kind": "payments",
    "payer": "market",
    "lines": 3,
    "sums": {"EUR": "58.20", "JPY": "7"},
    "reason": " the sellers of November ",
}
SHOWN = {"run": PROPOSAL.run, "digest": PROPOSAL.digest}


def test_a_proposal_is_parsed_with_its_person_and_time() -> None:
    assert parse_proposal(BODY, RULES, CONFIG, ADA, NOW) == PROPOSAL
    mended = parse_proposal(BODY | {"parent": "ab" * 16}, RULES, CONFIG, ADA, NOW)
    assert (mended.parent, mended.posted_at, mended.by) == ("ab" * 16, timestamp(NOW), ADA.by)


@pytest.mark.parametrize(
    ("lines", "sums", "needed"),
    [
        (3, {"EUR": 58_19, "JPY": 1_000}, 1),
        (4, {"EUR": 1}, 2),
        (1, {"EUR": 58_20}, 2),
        (1, {"EUR": 1, "JPY": 1_001}, 2),
        (1, {"USD": 10**14}, 1),
    ],
)
def test_large_runs_need_two_persons(lines: int, sums: dict[str, int], needed: int) -> None:
    assert RULES.needed(lines, sums) == needed
    assert Rules(over={}, lines_over=9).needed(lines, sums) == 1


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        *[({name: ...}, f"{name}: missing") for name in BODY],
        ({"more": 1}, "more: unknown field"),
        ({"digest": "5C" * 32}, "digest: must match"),
        ({"digest": 7}, "digest: must match"),
        ({"name": "a/b"}, "name: must match"),
        ({"payer": "a:b"}, "payer: must match"),
        ({"parent": None}, "parent: must match"),
        ({"kind": "gifts"}, "kind: must be one of payments, payouts"),
        ({"kind": ["payments"]}, "kind: must be one of"),
        ({"lines": 0}, "lines: must be from 1"),
        ({"lines": 100_001}, "lines: must be from 1"),
        ({"lines": True}, "lines: must be from 1"),
        ({"lines": "3"}, "lines: must be from 1"),
        ({"sums": {}}, "sums: must be by currency"),
        ({"sums": {"XXX": "1"}}, "sums: must be by currency"),
        ({"sums": ["EUR"]}, "sums: must be by currency"),
        ({"sums": {"EUR": 58.2}}, "sums: EUR must be a decimal string"),
        ({"sums": {"JPY": "0.5"}}, "sums: JPY must be a decimal string"),
        ({"reason": "a\nb"}, "reason: must be one line"),
    ],
    ids=str,
)
def test_a_malformed_proposal_is_refused(changed: dict[str, Any], told: str) -> None:
    body = {name: value for name, value in (BODY | changed).items() if value is not ...}

    with pytest.raises(InvalidRequest, match=re.escape(told)):
        parse_proposal(body, RULES, CONFIG, ADA, NOW)


def test_a_decision_on_a_run_names_its_whole_digest() -> None:
    assert parse_shown(SHOWN) == (PROPOSAL.run, PROPOSAL.digest)


@pytest.mark.parametrize(
    "changed",
    [
        *[{"run": one} for one in (..., None, PROPOSAL.run[:31], PROPOSAL.run.upper(), "a:b", 7)],
        *[{"digest": one} for one in (..., None, PROPOSAL.run, "0" * 64, PROPOSAL.digest + "0")],
        {"reason": "more"},
    ],
    ids=str,
)
def test_a_decision_with_an_invalid_run_or_digest_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        parse_shown({name: value for name, value in (SHOWN | changed).items() if value is not ...})


@pytest.mark.parametrize("body", [None, [], "run", 7], ids=str)
def test_an_order_must_be_a_json_object(body: Any) -> None:
    with pytest.raises(InvalidRequest):
        parse_shown(body)
    with pytest.raises(InvalidRequest):
        parse_proposal(body, RULES, CONFIG, ADA, NOW)
