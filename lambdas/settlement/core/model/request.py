"""Parses the JSON of clients' requests into domain types."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from settlement.core.model import money
from settlement.core.model.errors import InvalidRequest
from settlement.core.model.settlement import FIELDS, NAMES, Settlement
from settlement.core.model.stage_config import StageConfig

KEY = re.compile(r"[A-Za-z0-9_-]{16,64}", re.ASCII)
"""An idempotency key. The client mints it before its first try."""

ACCOUNT = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
"""A customer's id. A colon marks internal accounts (`fees:EUR`)."""

DEADLINE_SECONDS_MIN, DEADLINE_SECONDS_MAX = 30, 86_400
"""Bounds of a deadline. Never narrow them: a settlement in flight outside them could not even be reversed."""

NAME_LENGTH_MAX = 100
"""Maximum characters of a party's name. Never narrow it.

With two ASCII names, a settling payment's row stays below 1 KB, one write unit. A review with a long
reference exceeds it.
"""

REFERENCE_LENGTH_MAX = METADATA_VALUE_LENGTH_MAX = 64
METADATA_NAME = re.compile(r"[A-Za-z0-9_.-]{1,32}", re.ASCII)
METADATA_MEMBERS_MAX, METADATA_BYTES_MAX = 8, 512
"""Bounds of metadata. Never narrow them. Every write of the row pays for metadata.

The bytes are counted in canonical JSON, in UTF-8.
"""

_JOINERS = dict.fromkeys((0x200C, 0x200D))
"""Zero-width joiners. Names in Persian and Indic scripts need them."""

MINTED = "minted-"

STARTED_BY = "AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID"
"""A field that a state machine adds when it starts an execution. It is not content."""

_REQUIRED = ("key", "payer", "payee", "amount", "currency")
_TEXT_LENGTHS = {**dict.fromkeys(NAMES, NAME_LENGTH_MAX), "reference": REFERENCE_LENGTH_MAX}
_COMPACT = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
_PATTERNS = {"key": KEY, "payer": ACCOUNT, "payee": ACCOUNT}
_FIELD_LENGTH_MAX = 40
_FIELDS_MAX = 5
"""Maximum faulty fields in a message, to limit its size."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A client's request. A `fee` of None means the stage's schedule."""

    key: str
    payer: str
    payee: str
    amount: int
    currency: str
    fee: int | None
    deadline_seconds: int | None
    payer_name: str | None = field(default=None, repr=False)
    payee_name: str | None = field(default=None, repr=False)
    reference: str | None = field(default=None, repr=False)
    metadata: Mapping[str, str] | None = field(default=None, repr=False, hash=False)

    def settlement(self, fee: int) -> Settlement:
        """The settlement of this request. `fee` (minor units) applies if the request names none."""
        return Settlement(**vars(self) | {"fee": fee if self.fee is None else self.fee})

    def claim_problems(self, config: StageConfig) -> list[str]:
        """Return the faults for which a first claim is refused.

        Rules about fees and names may change. A settlement in flight keeps the rules of its claim, because
        new rules would block it.
        """
        return [*self._fee_problems(config), *self._missing_names(config)]

    def _fee_problems(self, config: StageConfig) -> Iterator[str]:
        lowest, highest = config.fee_bounds(self.amount)
        if self.fee is None or lowest <= self.fee <= highest:
            return
        exponent = config.currencies[self.currency]
        if config.fee == "client":
            bounds = f"from {money.render(lowest, exponent)} to {money.render(highest, exponent)}"
            yield f"fee: must be {bounds} for this amount, or be left out"
        else:
            yield f"fee: must be {money.render(lowest, exponent)} by the stage's schedule, or be left out"

    def _missing_names(self, config: StageConfig) -> Iterator[str]:
        if config.party_names != "optional":
            for name in sorted(NAMES):
                if getattr(self, name) is None:
                    yield f"{name}: missing"


def parse_request(raw: object, config: StageConfig) -> Request:
    """Parse a request. Raises InvalidRequest, which names each faulty field and its expected form."""
    if not isinstance(raw, dict):
        raise InvalidRequest(f"request: must be a JSON object with the fields {', '.join(FIELDS)}")
    problems = [*_shape_problems(raw), *_text_problems(raw)]
    amounts: dict[str, int] = {}
    exponent = config.currencies.get(raw["currency"]) if isinstance(raw.get("currency"), str) else None
    if exponent is not None:
        for name in raw.keys() & {"amount", "fee"}:
            try:
                amounts[name] = money.parse(raw[name], exponent)
            except ValueError as expected:
                problems.append(f"{name}: {expected}")
    elif "currency" in raw:
        problems.append(f"currency: must be one of {', '.join(sorted(config.currencies))}")
    problems += _amount_problems(amounts)
    problems += _deadline_problems(raw)
    problems += _name_problems(raw)
    problems += _metadata_problems(raw)
    if problems:
        raise InvalidRequest("; ".join(sorted(problems)))
    return Request(
        key=raw["key"],
        payer=raw["payer"],
        payee=raw["payee"],
        amount=amounts["amount"],
        currency=raw["currency"],
        fee=amounts.get("fee"),
        deadline_seconds=raw.get("deadline_seconds"),
        **{name: _canonical_name(raw[name]) for name in _TEXT_LENGTHS if name in raw},
        metadata=_canonical_metadata(raw.get("metadata")),
    )


def parse_settlement(raw: object, config: StageConfig) -> Settlement:
    """Parse a settlement passed between states: a request with a fee."""
    request = parse_request(raw, config)
    if request.fee is None:
        raise InvalidRequest("fee: missing; a claimed settlement names its fee")
    return request.settlement(request.fee)


def with_minted_key(raw: Any, source: str, config: StageConfig) -> Any:
    """Return `raw` with a minted key, if it has no key and the stage mints keys.

    A repeated call has the same `source`, and so the same key. A payment sent again in a new call is paid
    twice.
    """
    if config.idempotency_key == "required" or not isinstance(raw, dict) or "key" in raw:
        return raw
    return raw | {"key": MINTED + hashlib.sha256(source.encode()).hexdigest()[:32]}


def unknown_fields(names: AbstractSet[str], fields: Collection[str]) -> Iterator[str]:
    unknown = sorted(names - set(fields))
    for name in unknown[:_FIELDS_MAX]:
        yield f"{_shown(name)}: unknown field; the fields are {', '.join(fields)}"
    if len(unknown) > _FIELDS_MAX:
        yield f"request: has {len(unknown) - _FIELDS_MAX} more unknown fields"


def _shown(name: str) -> str:
    return name[:_FIELD_LENGTH_MAX].encode("unicode_escape").decode()


def _shape_problems(raw: dict[str, Any]) -> Iterator[str]:
    yield from unknown_fields(raw.keys() - {STARTED_BY}, FIELDS)
    for name in _REQUIRED:
        if name not in raw:
            yield f"{name}: missing"


def _text_problems(raw: dict[str, Any]) -> Iterator[str]:
    for name, pattern in _PATTERNS.items():
        if name in raw and not (isinstance(raw[name], str) and pattern.fullmatch(raw[name])):
            yield f"{name}: must be a string that matches ^{pattern.pattern}$"
    payee = raw.get("payee")
    if isinstance(payee, str) and raw.get("payer") == payee:  # comparing deeply nested values can overflow
        yield "payee: must be another account than the payer's"


def _deadline_problems(raw: dict[str, Any]) -> Iterator[str]:
    if "deadline_seconds" in raw:
        seconds = raw["deadline_seconds"]
        if type(seconds) is not int or not DEADLINE_SECONDS_MIN <= seconds <= DEADLINE_SECONDS_MAX:
            yield (
                "deadline_seconds: must be a whole number from"
                f" {DEADLINE_SECONDS_MIN} to {DEADLINE_SECONDS_MAX}"
            )


def _name_problems(raw: dict[str, Any]) -> Iterator[str]:
    for name in raw.keys() & _TEXT_LENGTHS.keys():
        yield from _printable_problems(name, raw[name], _TEXT_LENGTHS[name])


def _printable_problems(field_name: str, value: object, length_max: int) -> Iterator[str]:
    text = _canonical_name(value) if isinstance(value, str) else ""
    visible = text.translate(_JOINERS).strip(" ")
    if not (visible and visible.isprintable() and len(text) <= length_max):
        yield f"{field_name}: must be printable text of 1 to {length_max} characters"


def _metadata_problems(raw: dict[str, Any]) -> Iterator[str]:
    if "metadata" not in raw:
        return
    given = raw["metadata"]
    if not isinstance(given, dict) or len(given) > METADATA_MEMBERS_MAX:
        yield f"metadata: must be a JSON object of at most {METADATA_MEMBERS_MAX} texts"
        return
    problems = [problem for name in sorted(given) for problem in _member_problems(name, given[name])]
    yield from problems[:_FIELDS_MAX]
    if len(problems) > _FIELDS_MAX:
        yield f"metadata: has {len(problems) - _FIELDS_MAX} more faults"
    if not problems and len(_COMPACT.encode(_canonical_metadata(given)).encode()) > METADATA_BYTES_MAX:
        yield f"metadata: must be at most {METADATA_BYTES_MAX} bytes as compact JSON in UTF-8"


def _member_problems(name: str, value: object) -> Iterator[str]:
    shown = f"metadata.{_shown(name)}"
    if not METADATA_NAME.fullmatch(name):
        yield f"{shown}: its name must match ^{METADATA_NAME.pattern}$"
    yield from _printable_problems(shown, value, METADATA_VALUE_LENGTH_MAX)


def _canonical_metadata(given: Mapping[str, str] | None) -> dict[str, str] | None:
    return {name: _canonical_name(text) for name, text in given.items()} if given else None


def _canonical_name(text: str) -> str:
    composed = unicodedata.normalize("NFC", text)
    return "".join(" " if unicodedata.category(each) == "Zs" else each for each in composed).strip(" ")


def _amount_problems(amounts: dict[str, int]) -> Iterator[str]:
    amount, fee = amounts.get("amount"), amounts.get("fee")
    if amount == 0:
        yield "amount: must be greater than zero"
    if amount and fee is not None and fee >= amount:
        yield "fee: must be less than the amount"
