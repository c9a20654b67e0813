"""A person's orders about a settlement, checked: the only way from JSON into the domain."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from settlement.model import money
from settlement.model.accounts import MERCHANT, is_merchant
from settlement.model.caller import Caller
from settlement.model.errors import InvalidRequest
from settlement.model.request import ACCOUNT, KEY, unknown_fields
from settlement.model.status import Status

TEXT_LENGTH_MAX = 500
"""Most characters of a reason, of a person's name, and of a reference."""

REVERSE, REVERSE_PART, RECOVER = "reverse", "reverse-part", "recover"
"""The orders on a settlement that are no decision on a case of LIMBO."""

REVERSAL_REQUESTED = "ReversalRequested"
"""The error of a settlement that is reversed by a person's order."""

SWEEP = "sweep"
"""The order to make available what a merchant has received: it moves no money from one account to another."""

PROBE = "probe"
"""The order to look now whether the KYC provider is back."""

REPLAY = "replay"
"""The order to tell the readers of outcome events of settlements again."""

REPLAYED_MAX = 50
"""Most settlements of a replay: as many reads, and five calls of the bus."""

CASES_MAX = 10**9
"""The highest number of a case, or of a part, that an order may name."""

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_SINCE = re.compile(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2})?", re.ASCII)
_COME = re.compile(r"(\d|1[0-5])#(\d{4}-\d{2}-\d{2}T\d{2}:\d{2})", re.ASCII)
_ANY_TIME = "0"
"""It sorts before every timestamp."""

_REVERSIBLE_ON_ORDER = (Status.SETTLED, Status.PROCESSING)
_PART = ("key", "part", "amount", "reason")


class Decision(StrEnum):
    """The ways out of LIMBO."""

    RETRY = "retry"
    """Try the stuck reversal again, after its cause was removed."""

    WRITE_OFF = "write-off"
    """Cover the stuck amount from the losses and reverse the rest: the payer is whole, the payee keeps it."""

    COMPLETE = "complete"
    """Accept the release and finish: the payee keeps the net amount, the rest of the escrow is the fee."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """A person's order: the reason, and who gives it.

    `by` is the ARN that AWS has proven, and `proof` has what else is known of the caller and the request.
    Two tries of one order differ in their proofs alone.
    """

    reason: str
    by: str
    proof: Mapping[str, str] = field(default_factory=dict, compare=False)

    def record(self) -> dict[str, str]:
        """Return the order as the settlement's row has it."""
        return {"reason": self.reason, "by": self.by}

    def evidence(self) -> dict[str, str]:
        """Return the order as attributes of its evidence."""
        return {**self.record(), **self.proof}


@dataclass(frozen=True, kw_only=True)
class Reversal(Order):
    """An order to reverse a settlement, if it still has the status in which the person saw it.

    `expected_status` is SETTLED, or PROCESSING for one that has stalled.
    """

    expected_status: Status = Status.SETTLED

    def __post_init__(self) -> None:
        """Refuse every other status, above all LIMBO, which only a decision leaves."""
        if self.expected_status not in _REVERSIBLE_ON_ORDER:
            raise InvalidRequest(
                f"expected_status: must be {' or '.join(_REVERSIBLE_ON_ORDER)}, or be left out"
            )


@dataclass(frozen=True, kw_only=True)
class Resolution(Order):
    """An order that closes the case of LIMBO with the number `case`."""

    decision: Decision
    case: int

    def record(self) -> dict[str, str]:
        """Return the decision as the settlement's row has it, beside the number of closed cases."""
        return super().record() | {"decision": self.decision.value}

    def is_on(self, entry: Mapping[str, object]) -> bool:
        """Return whether an entry has this decision on record, for this reason; the first person stays."""
        return (entry["decision"], entry["reason"]) == (self.decision, self.reason)


@dataclass(frozen=True, kw_only=True)
class PartialReversal(Order):
    """An order to give the payer `amount` (minor units) of what was released: the part with this number.

    The number is what makes it happen once: a person's next order names the next part.
    """

    part: int
    amount: int

    def differs_from(self, entry: Mapping[str, object]) -> str | None:
        """Return the field in which the part on record is another one; the first person stays."""
        return next((name for name in ("amount", "reason") if entry[name] != getattr(self, name)), None)


@dataclass(frozen=True, kw_only=True)
class Named:
    """A proposal as a person names it: by its whole digest and its decision.

    An approval repeats the number of the case or of the part, and the amount: a decimal string in the
    settlement's currency. They are None in a withdrawal, and where the decision has none.
    """

    decision: str
    digest: str
    case: int | None = None
    part: int | None = None
    amount: str | None = None


def part_name(part: int) -> str:
    """Return the name of a reversal in part: of its evidence, and of its entry in the payee's account."""
    return f"{REVERSE_PART}:{part}"


def refund_name(part: int | str) -> str:
    """Return the name of its entry in the payer's account."""
    return f"refund-part:{part}"


def order_name(case: int) -> str:
    """Return the name of the decision on a case: that of its evidence, and what wakes a machine."""
    return f"resolve:{case}"


def parse_reversal(raw: object, caller: Caller, **more: str) -> tuple[str, Reversal]:
    """Return the key and the order to reverse it. Raises InvalidRequest, naming each field at fault.

    `more` is what else the order has on record.
    """
    content = _object(raw, ("key", "expected_status", "reason"), optional=("expected_status",))
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
    """Return the key and the decision on a case. Raises InvalidRequest, naming each field at fault.

    `more` is what else the order has on record.
    """
    content = _object(raw, ("key", "case", "decision", "reason"))
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
    """Return the key and the order to reverse a part. Raises InvalidRequest, naming each field at fault.

    `exponent` is that of the settlement's currency, `more` what else the order has on record.
    """
    content = _object(raw, _PART)
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
    """Return the key that an order to reverse a part names. Raises InvalidRequest."""
    key: str = _object(raw, _PART)["key"]
    return key


def parse_recovery(raw: object) -> str:
    """Return the key of a settlement to recover. Raises InvalidRequest, naming each field at fault."""
    key: str = _object(raw, ("key",))["key"]
    return key


def parse_sweep(raw: object) -> tuple[str, str, tuple[int, str] | None]:
    """Return a merchant, the minute to begin with, and how far an earlier call came.

    The last is a number of a partition, and a minute of it; None for a first call.
    Raises InvalidRequest, naming each field at fault.
    """
    content = _object(raw, ("account", "since", "from"), optional=("since", "from"))
    account, since, come = (content.get(name, "") for name in ("account", "since", "from"))
    problems = []
    if not (isinstance(account, str) and ACCOUNT.fullmatch(account) and is_merchant(account)):
        problems.append(f"account: must be a merchant's, {MERCHANT}NAME, and match ^{ACCOUNT.pattern}$")
    if since != "" and not (isinstance(since, str) and _SINCE.fullmatch(since)):
        problems.append("since: must be a day or a minute such as 2026-11-22T06:04")
    found = _COME.fullmatch(come) if isinstance(come, str) else None
    if come != "" and not found:
        problems.append("from: must be that of an answer, or be left out")
    if problems:
        raise InvalidRequest("; ".join(problems))
    return account, since or _ANY_TIME, (int(found[1]), found[2]) if found else None


def parse_probe(raw: object) -> None:
    """Check an order to probe the KYC circuit, which has no fields. Raises InvalidRequest."""
    if raw != {}:
        raise InvalidRequest("order: must be an empty JSON object, as a probe has no fields")


def parse_replay(raw: object) -> list[str]:
    """Return the keys of the settlements to tell of, each once. Raises InvalidRequest."""
    keys = _object(raw, ("keys",))["keys"]
    if not isinstance(keys, list) or not 0 < len(keys) <= REPLAYED_MAX or not all(map(_is_key, keys)):
        raise InvalidRequest(f"keys: must be a list of 1 to {REPLAYED_MAX} keys that match ^{KEY.pattern}$")
    return list(dict.fromkeys(keys))


def parse_named(raw: object, decision: str) -> tuple[str, Named]:
    """Return the key, and the proposal to `decision` that a person names to withdraw it.

    Raises InvalidRequest, naming each field at fault.
    """
    return _named(raw, decision, ())


def parse_shown(raw: object, decision: str) -> tuple[str, Named]:
    """Return the key, and the proposal to `decision` as a person was shown it, who approves it.

    Raises InvalidRequest, naming each field at fault.
    """
    number = {REVERSE: (), REVERSE_PART: ("part",)}.get(decision, ("case",))
    return _named(raw, decision, (*number, "amount"))


def _named(raw: object, decision: str, shown: tuple[str, ...]) -> tuple[str, Named]:
    content = _object(raw, ("key", "decision", *shown, "digest"))
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


def one_line(text: object, name: str) -> str:
    """Return a person's text without blanks at its ends. Raises InvalidRequest, naming the field."""
    if not (isinstance(text, str) and text.strip() and len(text) <= TEXT_LENGTH_MAX and text.isprintable()):
        raise InvalidRequest(
            f"{name}: must be one line of at most {TEXT_LENGTH_MAX} printable characters, not blank"
        )
    return text.strip()


def _object(raw: object, names: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
    """Return a JSON object with these fields and no others, among them a well-formed key."""
    if not isinstance(raw, dict):
        raise InvalidRequest(f"order: must be a JSON object with {', '.join(names)}")
    problems = [*unknown_fields(raw.keys(), names)]
    problems += [f"{name}: missing" for name in names if name not in raw and name not in optional]
    key = raw.get("key")
    if "key" in raw and not _is_key(key):
        problems.append(f"key: must be a string that matches ^{KEY.pattern}$")
    if problems:
        raise InvalidRequest("; ".join(sorted(problems)))
    return raw


def _is_key(value: object) -> bool:
    return isinstance(value, str) and KEY.fullmatch(value) is not None
