import tomllib
from enum import StrEnum
from functools import cache

import yaml
from jsonschema import Draft202012Validator

from settle.local.record import CONSTRUCTS_FOLDER, PROJECT

CONTRACT = PROJECT / "docs" / "contracts" / "bank.openapi.yaml"
CURRENCIES = CONSTRUCTS_FOLDER / "currencies.toml"
REFUSAL, REFUSED_LATER, UNDECLARED = "account_closed", "account_blocked", "under_review"
"""Reasons in answers. The bank can still pay after UNDECLARED, so a stage must not declare it a refusal."""

_PREFIX = "Bank"


class Behaviour(StrEnum):
    """The fate of a payout, by the bank's clock; "later" is after `pays_after_seconds`."""

    PAY = "pay"  # accepted, and paid later
    PAY_NOW = "pay-now"
    REFUSE = "refuse"
    REFUSE_LATER = "refuse-later"  # accepted, and refused later
    RETURN = "return"  # paid later, and returned three days afterwards
    LOSE_ANSWER_AFTER = "lose-answer-after"  # paid at once; the connection is cut
    LOSE_ANSWER_BEFORE = "lose-answer-before"  # the connection is cut each time; nothing arrives
    LOSE_FIRST_REQUEST = "lose-first-request"  # the same, once
    ARRIVE_LATE = "arrive-late"  # the connection is cut; the first request arrives after an hour
    FORGET_KEY = "forget-key"  # paid at once, answered with 500: once the key is forgotten, paid again
    ERROR_HOUR = "error-hour"  # 500 to all for an hour; nothing arrives
    IN_PROGRESS = "in-progress"  # 409, and paid later
    REFUSE_UNDECLARED = "refuse-undeclared"  # 422 with a reason that is no refusal, and paid later
    OTHER_AMOUNT = "other-amount"  # the answer has another amount than the order; paid later as ordered
    SLOW = "slow"  # paid later; the answer comes after a caller's time limit
    GARBAGE = "garbage"  # paid later; the answer is no JSON


class Wire(StrEnum):
    """How the server sends an answer."""

    WHOLE = "whole"
    SLOW = "slow"
    GARBAGE = "garbage"
    CUT = "cut"


WIRES = {
    Behaviour.LOSE_ANSWER_AFTER: Wire.CUT,
    Behaviour.SLOW: Wire.SLOW,
    Behaviour.GARBAGE: Wire.GARBAGE,
}
PAYS_AT_ONCE = {Behaviour.PAY_NOW, Behaviour.LOSE_ANSWER_AFTER, Behaviour.FORGET_KEY}


class Events(StrEnum):
    """When the bank sends an event about a payout."""

    ON_TIME = "on-time"
    EARLY = "early"  # when the order arrives, before the bank knows it, and no more
    TWICE = "twice"
    NEVER = "never"


def behaviour_of(holder: str, default: Behaviour) -> Behaviour:
    """Return the behaviour in a creditor's name, `Bank <behaviour> …`, else `default`."""
    words = holder.split(" ")
    if len(words) > 1 and words[0] == _PREFIX and words[1] in list(Behaviour):
        return Behaviour(words[1])
    return default


@cache
def schema(name: str) -> Draft202012Validator:
    contract = yaml.safe_load(CONTRACT.read_text("utf-8"))
    return Draft202012Validator(
        {"$ref": f"#/components/schemas/{name}", "components": contract["components"]}
    )


@cache
def exponents() -> dict[str, int]:
    """Decimals of each currency that a stage may use."""
    return tomllib.loads(CURRENCIES.read_text("utf-8"))
