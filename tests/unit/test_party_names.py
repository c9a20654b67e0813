import unicodedata
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement.core.model.request import _canonical_name, parse_request, parse_settlement
from settlement.core.model.settlement import NAMES
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.model.status import REVERSIBLE, Status, Step
from settlement.core.policy import compensation, outcome, steps
from settlement.core.policy.pager import PagerConfig
from tests.unit.test_request import VALID, refusal
from tests.unit.test_request_content import NAMED, claimed
from tests.unit.vectors import slots
from tests.world.environment import NOW

SPELLINGS = [
    pytest.param("Zoe\u0308", "Zoë", id="decomposed"),
    pytest.param("Zo\xeb", "Zoë", id="composed"),
    pytest.param("\u212bngstr\xf6m", "Ångström", id="a sign for a letter"),
    pytest.param("\u1112\u1161\u11ab", "한", id="Hangul letters"),
    pytest.param("山田\u3000太郎", "山田 太郎", id="ideographic space"),
    pytest.param("Alice\xa0Muster", "Alice Muster", id="no-break space"),
    pytest.param("Jean\u202fLuc", "Jean Luc", id="narrow no-break space"),
    pytest.param("\u3000\xa0Alice \u2009", "Alice", id="spaces around it"),
    pytest.param("Alice  Muster", "Alice  Muster", id="two spaces stay two"),
]
"""A name as written by a client, and its canonical form."""

TRICKY = (
    " \xa0\u1680\u2000\u2001\u3000\u200c\u200d\t\n\u2028ae\u0301\u0308\u0344\u0958\u1100\u1161\u212b\ud800"
)
"""Characters that the canonical form changes or the parser refuses, and combining ones."""

# The canonical form


@pytest.mark.parametrize("field", NAMES)
@pytest.mark.parametrize(("written", "canonical"), SPELLINGS)
def test_equal_names_in_other_unicode_forms_are_one_request(
    field: str, written: str, canonical: str, config: StageConfig
) -> None:
    """Clients' platforms compose characters differently; the payment is the same."""
    one, other = (parse_settlement(VALID | {field: name}, config) for name in (written, canonical))

    assert getattr(one, field) == canonical
    assert (one, one.request_hash) == (other, other.request_hash)
    state = SettlementState.from_row(claimed(VALID | {field: written}, config))
    again = parse_request(VALID | {field: canonical}, config)
    assert steps.verify_same_request(again, state) == state.settlement


@pytest.mark.parametrize(
    ("name", "other"), [("Zoë", "Zoe"), ("بی\u200cبی", "بیبی"), ("Å", "A"), ("Ali", "ALI"), ("ﬁ", "fi")]
)
def test_visibly_different_names_are_different_requests(name: str, other: str, config: StageConfig) -> None:
    one, another = (parse_settlement(VALID | {"payer_name": each}, config) for each in (name, other))

    assert one.request_hash != another.request_hash


def test_a_names_length_is_that_of_its_canonical_form(config: StageConfig) -> None:
    decomposed = unicodedata.normalize("NFD", "ë" * 100)
    assert len(decomposed) == 200

    assert parse_request(VALID | {"payer_name": f" {decomposed} "}, config).payer_name == "ë" * 100
    refusal(VALID | {"payer_name": decomposed + "e"}, config)
    refusal(VALID | {"payer_name": "\u0958" * 51}, config)  # which NFC keeps as two characters each


@given(name=st.text(st.sampled_from(TRICKY) | st.characters(), max_size=40))
def test_canonicalising_a_name_twice_changes_nothing_more(name: str, config: StageConfig) -> None:
    """Each state of a machine parses the settlement again, and another form would be another request."""
    canonical = _canonical_name(name)

    assert _canonical_name(canonical) == canonical
    assert unicodedata.is_normalized("NFC", canonical)
    assert canonical == canonical.strip(" ")
    assert {each for each in canonical if unicodedata.category(each) == "Zs"} <= {" "}
    kinds = {unicodedata.category(each) for each in canonical if each not in "\u200c\u200d"}
    if kinds <= {"Zs"} or kinds & {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}:
        refusal(VALID | {"payer_name": name}, config)
        return
    settlement = parse_settlement(VALID | {"payer_name": name}, config)
    assert settlement.payer_name == canonical
    assert parse_settlement(settlement.to_wire(config), config) == settlement


# What a stage requires


@pytest.mark.parametrize(
    ("request_", "missing"),
    [
        (VALID, ["payee_name", "payer_name"]),
        (VALID | {"payer_name": "Alice"}, ["payee_name"]),
        (VALID | {"payee_name": "Bob"}, ["payer_name"]),
        (NAMED, []),
    ],
    ids=str,
)
def test_a_request_lacks_only_the_names_that_its_stage_requires(
    request_: dict[str, Any], missing: list[str], config: StageConfig
) -> None:
    required = replace(config, party_names="required")

    problems = parse_request(request_, required).claim_problems(required)
    assert problems == [f"{name}: missing" for name in missing]
    assert parse_request(request_, config).claim_problems(config) == []


# Personal data


def test_a_name_is_stored_only_on_the_settlements_row(config: StageConfig) -> None:
    """No name can be erased from an entry, and an error may quote a settlement."""
    row = claimed(NAMED, config) | {
        "status": Status.LIMBO,
        **slots({Step.HOLD, Step.VERIFY, Step.RELEASE}),
        "stuck_step": "compensate:release",
        "failure": {"step": "compensate:release", "error": "InsufficientFunds", "cause": "too little"},
    }
    state, request = SettlementState.from_row(row), parse_request(NAMED, config)
    settlement = state.settlement
    case = compensation.case_of(state, Step.RELEASE)
    pager = PagerConfig(runbook="limbo.md", stack=None, again_after_seconds=60)
    moving = [
        steps.hold(settlement, NOW),
        steps.release(settlement, config, NOW),
        steps.fee(settlement, NOW),
        *(compensation.reverse_step(settlement, step, NOW) for step in REVERSIBLE),
    ]
    told = [
        outcome.of_state(state, config, replayed=False),
        outcome.of_settled(settlement, config, claimed_at="", finished_at=""),
        pager.alert(state, case, config, number=1, execution="e"),
        *(transaction.entry.parameters for transaction in moving if transaction.entry),
        *(repr(request), repr(settlement), str(settlement), repr(state)),
    ]

    assert asdict(settlement)["payer_name"] == "Alice Muster"
    for shown in told:
        assert "alice" in str(shown) or "bob" in str(shown) or "fees:EUR" in str(shown)
        assert not [word for word in ("Muster", "Söhne") if word in str(shown)]
    assert all(transaction.entry for transaction in moving)
