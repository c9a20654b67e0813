"""Parses the JSON of persons' orders into domain types."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from settlement.core.model import money
from settlement.core.model.errors import InvalidRequest
from settlement.core.model.orders import (
    CASES_MAX,
    REVERSE,
    Decision,
    Order,
    Resolution,
    Reversal,
    fields_of,
    one_line,
)
from settlement.core.model.status import Status
from settlement.http.caller import Caller

REVERSE_PART, RECOVER = "reverse-part", "recover"

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)

_PART = ("key", "part", "amount", "reason")


@dataclass(frozen=True, kw_only=True)
class PartialReversal(Order):
    """An order to reverse a part, once. The next order names the next `part`.

    `amount` is in minor units.
    """

    part: int
    amount: int

    def differs_from(self, entry: Mapping[str, object]) -> str | None:
        return next((name for name in ("amount", "reason") if entry[name] != getattr(self, name)), None)


@dataclass(frozen=True, kw_only=True)
class Named:
    """A proposal as a person names it.

    An approval repeats `case`, `part` and `amount` (a decimal string). A withdrawal leaves them None.
    """

    decision: str
    digest: str
    case: int | None = None
    part: int | None = None
    amount: str | None = None


def part_name(part: int) -> str:
    """Name a part's evidence, and the part's entry in the payee's account."""
    return f"{REVERSE_PART}:{part}"


def refund_name(part: int | str) -> str:
    """Name a part's entry in the payer's account."""
    return f"refund-part:{part}"


def parse_reversal(raw: object, caller: Caller, **more: str) -> tuple[str, Reversal]:
    """Parse an order to reverse. Raises InvalidRequest."""
    content = fields_of(raw, ("key", "expected_status", "reason"), optional=("expected_status",))
    expected = content.get("expected_status", Status.SETTLED)
    status = Status(expected) if expected in list(Status) else expected
    order = Reversal(
        reason=one_line(content["reason"], "reason"),
        by=caller.by,
        proof=caller.proof | more,
        expected_status=status,
    )
    return content["key"], order


def parse_resolution(raw: object, caller: Caller, **more: str) -> tuple[str, Resolution]:
    """Parse a decision on a case. Raises InvalidRequest."""
    content = fields_of(raw, ("key", "case", "decision", "reason"))
    decision, case = content["decision"], content["case"]
    if decision not in list(Decision):
        raise InvalidRequest(f"decision: must be one of {', '.join(Decision)}")
    if not (type(case) is int and 0 < case <= CASES_MAX):
        raise InvalidRequest("case: must be the number of a case")
    reason = one_line(content["reason"], "reason")
    order = Resolution(
        reason=reason, by=caller.by, proof=caller.proof | more, decision=Decision(decision), case=case
    )
    return content["key"], order


def parse_part(raw: object, caller: Caller, exponent: int, **more: str) -> tuple[str, PartialReversal]:
    """Parse an order to reverse a part. Raises InvalidRequest.

    `exponent` is the settlement currency's.
    """
    content = fields_of(raw, _PART)
    part, amount = content["part"], 0
    if not (type(part) is int and 0 < part <= CASES_MAX):
        raise InvalidRequest("part: must be the number of this part: 1, 2, 3 and so on")
    try:
        amount = money.parse(content["amount"], exponent)
    except ValueError as expected:
        raise InvalidRequest(f"amount: {expected}") from None
    if amount == 0:
        raise InvalidRequest("amount: must be greater than zero")
    reason = one_line(content["reason"], "reason")
    proof = caller.proof | more
    order = PartialReversal(reason=reason, by=caller.by, proof=proof, part=part, amount=amount)
    return content["key"], order


def key_of_part(raw: object) -> str:
    """The settlement's key. Raises InvalidRequest."""
    key: str = fields_of(raw, _PART)["key"]
    return key


def parse_recovery(raw: object) -> str:
    """Return the key to recover. Raises InvalidRequest."""
    key: str = fields_of(raw, ("key",))["key"]
    return key


def parse_named(raw: object, decision: str) -> tuple[str, Named]:
    """Parse the proposal to withdraw. Raises InvalidRequest."""
    return _named(raw, decision, ())


def parse_shown(raw: object, decision: str) -> tuple[str, Named]:
    """Parse the proposal to approve. Raises InvalidRequest."""
    number = {REVERSE: (), REVERSE_PART: ("part",)}.get(decision, ("case",))
    return _named(raw, decision, (*number, "amount"))


def _named(raw: object, decision: str, shown: tuple[str, ...]) -> tuple[str, Named]:
    content = fields_of(raw, ("key", "decision", *shown, "digest"))
    kinds = {"case": int, "part": int, "amount": str}
    problems = [
        f"{name}: must be that of the proposal, as it was shown"
        for name in shown
        if type(content[name]) is not kinds[name]
    ]
    if content["decision"] != decision:
        problems.append(f"decision: must be {decision}, as the route says")
    if not (isinstance(content["digest"], str) and _DIGEST.fullmatch(content["digest"])):
        problems.append("digest: must be the proposal's, of 64 hexadecimal digits")
    if problems:
        raise InvalidRequest("; ".join(sorted(problems)))
    key: str = content["key"]
    return key, Named(**{name: value for name, value in content.items() if name != "key"})
