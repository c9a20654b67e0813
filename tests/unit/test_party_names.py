"""The parties' names: checked, part of the request's content, and shown by no answer."""

import json
import unicodedata
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement.ledger import forward, keys, reversal
from settlement.model.errors import IdempotencyConflict
from settlement.model.request import _canonical_name, parse_request, parse_settlement
from settlement.model.settlement import NAMES, Settlement
from settlement.model.stage_config import StageConfig
from settlement.model.state import SettlementState
from settlement.model.status import Status, Step
from settlement.policy import compensation, outcome, recovery, steps
from settlement.policy.pager import PagerConfig
from tests.conftest import NOW
from tests.unit.test_request import VALID, refusal
from tests.unit.test_request_deadline import HASHES
from tests.unit.vectors import FAILURE

NAMED = VALID | {"payer_name": "Alice Muster", "payee_name": "Bob & Söhne"}
JOINED = ("بی\u200cبی", "क्\u200dष", "ന്\u200d")
"""Names with a joiner, in Persian, Hindi and, at the end, Malayalam."""

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
"""A name as a client may write it, and as it is kept."""

TRICKY = (
    " \xa0\u1680\u2000\u2001\u3000\u200c\u200d\t\n\u2028ae\u0301\u0308\u0344\u0958\u1100\u1161\u212b\ud800"
)
"""Characters that the canonical form changes or the parser refuses, with some that combine."""

HASH = "498dabb5701e9beb6c638eaea5346c7413e787cc94c34ae6ce309e6f8617d789"
"""The hash of that request, for ever: rows carry it."""


def required(config: StageConfig) -> StageConfig:
    return replace(config, party_names="required")


def claimed(request: dict[str, Any], config: StageConfig) -> dict[str, Any]:
    """Return the row of a claimed request."""
    row: dict[str, Any] = forward.claim(parse_settlement(request, config), "e", NOW, config).parameters[
        "Item"
    ]
    return row


# The field


@pytest.mark.parametrize("field", NAMES)
@pytest.mark.parametrize("name", ["A", "名前", "O'Neill, Seán", "Ünal  A.Ş.", "A" * 100, "-", *JOINED])
def test_a_printable_name_of_up_to_100_characters_is_accepted(
    field: str, name: str, config: StageConfig
) -> None:
    assert getattr(parse_request(VALID | {field: name}, config), field) == name


@pytest.mark.parametrize("field", NAMES)
@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 7, 4.5, [], ["Alice"], {}, ""),
        *(" ", "   ", "\u3000", " \xa0\u2009", "A" * 101, "\u3000" + "A" * 101, "A" * 300_000),
        *("Alice\n", "\nAlice", "Al\nice", "Alice\r", "Alice\x00", "Alice\x1b[2J", "Alice\x85", "Alice\x7f"),
        *("Alice\t", "\tAlice", "\x1cAlice", " \nAlice", "Alice\u2028", "\u2029Alice"),
        *("Alice\u202e", "Alice\u200b", "\ufeffAlice", "Alice\ud800"),
        *("\u200c", "\u200d", " \u200c ", "\u200c \u200d", "\u200d\xa0\u200c"),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_any_other_value_is_refused_without_being_repeated(
    field: str, value: object, config: StageConfig
) -> None:
    """The message goes into logs, causes and the dead-letter queue, where no name belongs."""
    message = refusal(VALID | {field: value}, config)

    assert message == f"{field}: must be printable text of 1 to 100 characters"


def test_both_names_at_fault_are_named_at_once(config: StageConfig) -> None:
    message = refusal(VALID | {"payer_name": 1, "payee_name": ""}, config)

    assert [problem.partition(":")[0] for problem in message.split("; ")] == ["payee_name", "payer_name"]


def test_the_spaces_around_a_name_are_no_part_of_it(config: StageConfig) -> None:
    spaced = parse_settlement(NAMED | {"payer_name": "  Alice Muster "}, config)

    assert spaced == parse_settlement(NAMED, config)
    assert spaced.request_hash == parse_settlement(NAMED, config).request_hash


# The canonical form


@pytest.mark.parametrize("field", NAMES)
@pytest.mark.parametrize(("written", "canonical"), SPELLINGS)
def test_equal_names_are_kept_as_equal_texts(
    field: str, written: str, canonical: str, config: StageConfig
) -> None:
    one, other = (parse_settlement(VALID | {field: name}, config) for name in (written, canonical))

    assert getattr(one, field) == canonical
    assert one == other
    assert one.request_hash == other.request_hash
    assert claimed(VALID | {field: written}, config) == claimed(VALID | {field: canonical}, config)


@pytest.mark.parametrize(("written", "canonical"), SPELLINGS)
def test_a_name_that_is_written_in_another_form_is_a_replay(
    written: str, canonical: str, config: StageConfig
) -> None:
    """A client's platform may compose characters, or not: it did not send another payment."""
    for first, second in ((written, canonical), (canonical, written)):
        state = SettlementState.from_row(claimed(VALID | {"payer_name": first}, config))
        again = parse_request(VALID | {"payer_name": second}, config)
        assert steps.verify_same_request(again, state) == state.settlement


@pytest.mark.parametrize(
    ("name", "other"), [("Zoë", "Zoe"), ("بی\u200cبی", "بیبی"), ("Å", "A"), ("Ali", "ALI"), ("ﬁ", "fi")]
)
def test_names_that_a_reader_tells_apart_are_not_equal(name: str, other: str, config: StageConfig) -> None:
    one, another = (parse_settlement(VALID | {"payer_name": each}, config) for each in (name, other))

    assert one.request_hash != another.request_hash


def test_the_length_is_that_of_the_canonical_form(config: StageConfig) -> None:
    decomposed = unicodedata.normalize("NFD", "ë" * 100)
    assert len(decomposed) == 200

    assert parse_request(VALID | {"payer_name": f" {decomposed} "}, config).payer_name == "ë" * 100
    refusal(VALID | {"payer_name": decomposed + "e"}, config)
    refusal(VALID | {"payer_name": "\u0958" * 51}, config)  # which NFC keeps as two characters each


@given(name=st.text(st.sampled_from(TRICKY) | st.characters(), max_size=40))
def test_the_canonical_form_of_a_name_is_its_own(name: str, config: StageConfig) -> None:
    """Each state parses the settlement again: with another form it would be another request."""
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


# The content


def test_the_hash_of_a_request_with_names_never_changes(config: StageConfig) -> None:
    assert parse_settlement(NAMED, config).request_hash == HASH


def test_a_request_without_names_has_the_hash_of_before(config: StageConfig) -> None:
    for seconds, expected in HASHES.items():
        request = VALID if seconds is None else VALID | {"deadline_seconds": seconds}
        assert parse_settlement(request, config).request_hash == expected


@pytest.mark.parametrize(
    "other",
    [
        VALID,
        VALID | {"payer_name": "Alice Muster"},
        VALID | {"payee_name": "Bob & Söhne"},
        NAMED | {"payer_name": "alice muster"},
        NAMED | {"payee_name": "Bob & Soehne"},
        VALID | {"payer_name": "Bob & Söhne", "payee_name": "Alice Muster"},
    ],
    ids=str,
)
def test_another_name_makes_another_request(other: dict[str, Any], config: StageConfig) -> None:
    for first, second in ((NAMED, other), (other, NAMED)):
        state = SettlementState.from_row(claimed(first, config))
        assert steps.verify_same_request(parse_request(first, config), state) == state.settlement
        with pytest.raises(IdempotencyConflict):
            steps.verify_same_request(parse_request(second, config), state)


@pytest.mark.parametrize("names", [{}, {"payer_name": "Alice"}, {"payee_name": "Bob"}, NAMED], ids=str)
def test_names_survive_the_wire_and_the_row(names: dict[str, str], config: StageConfig) -> None:
    one = parse_settlement(VALID | names, config)

    wire = json.loads(json.dumps(one.to_wire(config)))
    row = claimed(VALID | names, config)

    assert parse_settlement(wire, config) == one
    assert SettlementState.from_row(row).settlement == one
    assert wire.keys() & set(NAMES) == row.keys() & set(NAMES) == names.keys() & set(NAMES)


def test_a_tombstone_keeps_the_names_of_its_request(config: StageConfig) -> None:
    one = parse_settlement(NAMED, config)

    row = reversal.tombstone(one, "execution", FAILURE, NOW).parameters["Item"]

    assert SettlementState.from_row(row).settlement == one


@pytest.mark.parametrize("status", [Status.PROCESSING, Status.COMPENSATING, Status.LIMBO])
def test_the_execution_that_recovery_starts_has_the_names(status: Status, config: StageConfig) -> None:
    """Without them its input would be another request, and the provider could not be asked."""
    one = parse_settlement(NAMED, config)

    takeover = recovery.take_over(
        SettlementState.from_row(claimed(NAMED, config) | {"status": status}), NOW, config
    )

    assert takeover is not None
    wire = takeover.input.get("settlement", takeover.input)
    assert parse_settlement(wire, config) == one


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
def test_a_stage_misses_the_names_that_it_requires_and_no_others(
    request_: dict[str, Any], missing: list[str], config: StageConfig
) -> None:
    assert parse_request(request_, required(config)).missing_names(required(config)) == missing
    assert parse_request(request_, config).missing_names(config) == []


def test_a_stage_that_comes_to_require_names_strands_no_settlement_in_flight(config: StageConfig) -> None:
    """Each step checks its settlement again: refused, it could not even be reversed."""
    in_flight = parse_settlement(VALID, config)

    assert parse_settlement(in_flight.to_wire(config), required(config)) == in_flight


# Answers, alerts and messages


def test_no_answer_and_no_alert_has_a_name(config: StageConfig) -> None:
    row = claimed(NAMED, config) | {
        "status": Status.LIMBO,
        "steps": {Step.HOLD, Step.VERIFY, Step.RELEASE},
        "stuck_step": "reclaim",
        "failure": {"step": "reclaim", "error": "InsufficientFunds", "cause": "payee: has too little"},
    }
    state = SettlementState.from_row(row)
    case = compensation.case_of(state, Step.RELEASE)
    pager = PagerConfig(runbook="limbo.md", show_command="settle limbo show {key}", again_after_seconds=60)

    told = [
        outcome.of_state(state, config, replayed=False),
        outcome.of_settled(state.settlement, config, claimed_at="", finished_at=""),
        pager.alert(state, case, config, number=1, execution="e"),
    ]

    assert "alice" in str(told)
    assert not [word for word in ("Muster", "Söhne") if word in str(told)]


def test_no_printed_settlement_shows_a_name(config: StageConfig) -> None:
    """An exception or a log line that quotes one would carry personal data with it."""
    settlement = parse_settlement(NAMED, config)
    state = SettlementState.from_row(claimed(NAMED, config))

    printed = f"{parse_request(NAMED, config)!r} {settlement!r} {settlement} {state!r}"

    assert "alice" in printed
    assert not [word for word in ("Muster", "Söhne") if word in printed]
    assert asdict(settlement)["payer_name"] == "Alice Muster"


def test_no_entry_of_the_journal_has_a_name(config: StageConfig) -> None:
    """An entry is never changed, not even to erase personal data; the row alone has the names."""
    settlement = parse_settlement(NAMED, config)
    entries = [step(settlement, NOW).entry.parameters["Item"] for step in (steps.hold, steps.fee)] + [
        steps.release(settlement, config, NOW).entry.parameters["Item"]
    ]

    assert all(entry["pk"] == keys.settlement(settlement.key)["pk"] for entry in entries)
    assert not [entry for entry in entries if "Muster" in str(entry)]


def test_a_settlement_without_names_is_as_before(config: StageConfig) -> None:
    settlement = Settlement(key="k" * 16, payer="alice", payee="bob", amount=1, currency="EUR", fee=0)

    assert (settlement.payer_name, settlement.payee_name) == (None, None)
    assert not settlement.to_row().keys() & set(NAMES)
    assert not settlement.to_wire(config).keys() & set(NAMES)
