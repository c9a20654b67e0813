"""Hostile JSON, made from a valid payload by a fuzzer's choices."""

import json
import marshal
import sys
from bisect import bisect
from functools import cache
from typing import Any, Protocol

DEEPEST = "<<the deepest nesting that a JSON parser still reads>>"
"""Stands for the deepest lists that can reach a function (`claims.read`)."""

CANARY = "canary-8c1f"
"""A marker that no answer may quote.

Field names contain only a part of it, because answers name unknown fields.
"""

NAMES = (
    *("settlement", "execution", "execution_arn", "state", "steps", "reversed", "error", "Error", "Cause"),
    *("owner", "reversal", "resolution", "case", "reason", "by", "decision", "expected_status", "key"),
    *("payer", "payee"),
    *("amount", "fee", "currency", "deadline_seconds", "stuck", "alerts", "replayed", "claimed_at", "token"),
    *("payer_name", "payee_name", "metadata", "cart", "shop"),
    *("idempotency_key", "reference", "headers", "body", "Records", "pk", "status", "__class__", ""),
    *("\ud800", "\x00", "k" * 9_000, "🦊" * 60, "ключ", f"<script>{CANARY[:6]}"),
)

TEXTS = (
    *("", " ", "\x00", "\ud800", "\udfff x", "\u202e"),
    *("🦊", "a\nb", "a\x00b", "\uff41", "٤٨", "४८.२०", "4\uff18.20"),
    *("48.20", "48.2", "0", "0.00", "-1", "+1", "1e3"),
    *("1E400", "NaN", "Infinity", "0x10", "1_000", ".5", "5."),
    *("9" * 15, "9" * 13 + ".99", "9" * 16, "9" * 5_000, "0.001", "00.10", " 48.20", "48.20\n", "48,20"),
    *("alice", "bob", "carol", "fees:EUR", "escrow:order-2026-000101", "external:EUR", "ACCOUNT#alice"),
    *("EUR", "eur", "USD", "JPY", "KWD", "XXX", "order-2026-000101", "order-2026-000101:verify"),
    *("order-2026-000102", "order-2026-000101\n", "a" * 16, "a" * 64, "a" * 65, "a" * 100_000, "🦊" * 20_000),
    *("PROCESSING", "SETTLED", "LIMBO", "hold", "verify", "release", "fee", "compensate:hold", "nonsense"),
    *("retry", "write-off", "complete", "APPROVED", "REJECTED", "REVIEW", "ver_1", "InsufficientFunds"),
    *("execution-1", "compensation-1", "States.Timeout", "{}"),
    *("[]", "null", '{"errorMessage": 5}', "[" * 5_000),
    *("2026-11-20T12:00:00.123Z", "../../etc/passwd", "'; DROP TABLE", "${jndi:ldap://x}", "%s%n", "{key}"),
    *(CANARY, f"{CANARY} {'x' * 40_000}", "\\ud800", '"', "\x7f\x1b[31m", "\ufeff48.20", "\u00a0", "é" * 300),
)
NUMBERS = (
    *(0, 1, -1, 2, 29, 30, 900, 86_400),
    *(86_401, 2**31, 2**53 + 1, 2**63, -(2**64), 10**38, 10**300, 10**4_000),
    *(0.0, -0.0, 0.1, 48.2, 48.0, 1e22, 1e308, 5e-324, -1.5, float("inf"), float("-inf")),
)
OTHERS: tuple[Any, ...] = (
    *(None, True, False, [], {}, [[]], [None], [{}], {"": None}, DEEPEST, [DEEPEST], {"key": DEEPEST}),
    *(["48.20"], {"S": "48.20"}, {"N": "1"}, ["hold", "verify", "release", "fee"], {"hold": {}}, [0] * 2_000),
    *({"Error": "Boom", "Cause": DEEPEST}, {"Error": 5}),
    *({"Cause": "no error"}, {str(i): i for i in range(500)}),
)
_HOSTILE = (TEXTS, NUMBERS, OTHERS)
_CHANGES_MAX = 4
_DEPTH_MAX = 4
_ODD = 14
"""Number of texts at the start of TEXTS that are tried more often."""


class Choices(Protocol):
    def below(self, bound: int) -> int:
        """Return a number in [0, bound); 0 without data."""
        ...


class Bytes:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def below(self, bound: int) -> int:
        width = 1 if bound <= 256 else 2
        drawn = self._data[self._at : self._at + width]
        self._at += width
        return int.from_bytes(drawn, "big") % bound


def copied(value: Any) -> Any:
    """Copy JSON ten times faster than `copy.deepcopy`."""
    return marshal.loads(marshal.dumps(value))


def levels_left() -> int:
    """Return roughly how deep a JSON parser can read in the caller's frame."""
    if sys.version_info >= (3, 12):
        return _levels_of_c()
    frame, frames = sys._getframe(1), 0
    while frame := frame.f_back:  # type: ignore[assignment]
        frames += 1
    return sys.getrecursionlimit() - frames


@cache
def _levels_of_c() -> int:
    """Return C's recursion limit, independent of Python's stack since 3.12."""

    def is_too_deep(depth: int) -> bool:
        try:
            json.loads("[" * depth + "]" * depth)
        except RecursionError:
            return True
        return False

    return bisect(range(1_000_000), False, key=is_too_deep) - 1


def mutated(valid: Any, choices: Choices) -> Any:
    """Return the payload with up to four changes, or other JSON."""
    if choices.below(16) == 15:
        return anything(choices)
    root = [copied(valid)]
    for _ in range(choices.below(_CHANGES_MAX + 1)):
        _change(root, choices)
    return root[0]


def anything(choices: Choices, depth: int = 0) -> Any:
    kind = choices.below(8 if depth < _DEPTH_MAX else 6)
    if kind == 6:
        return [anything(choices, depth + 1) for _ in range(choices.below(4))]
    if kind == 7:
        return {_name(choices): anything(choices, depth + 1) for _ in range(choices.below(4))}
    pool = _HOSTILE[min(kind // 2, 2)]
    return copied(pool[choices.below(len(pool))])


def _change(root: list[Any], choices: Choices) -> None:
    holder, place = _somewhere(root, choices)
    match choices.below(9):
        case 0 | 1:
            holder[place] = anything(choices)
        case 2 if holder is not root:
            del holder[place]
        case 3:
            _add(holder[place], choices)
        case 4:
            holder[place] = _bent(holder[place], choices)
        case 5:
            holder[place] = [holder[place]] if choices.below(2) else {_name(choices): holder[place]}
        case 6:  # a value from elsewhere in the payload
            other, where = _somewhere(root, choices)
            holder[place] = copied(other[where])
        case 7:
            pool: tuple[Any, ...] = TEXTS if isinstance(holder[place], str) else NUMBERS
            holder[place] = pool[choices.below(_ODD if choices.below(2) else len(pool))]
        case 8:  # equal values in two places that are compared
            twice = anything(choices)
            for neighbour in [place, *holder][:3] if isinstance(holder, dict) else [place]:
                holder[neighbour] = copied(twice)


def _somewhere(root: list[Any], choices: Choices) -> tuple[Any, Any]:
    holder: Any = root
    place: Any = 0
    while (inner := holder[place]) and isinstance(inner, dict | list) and choices.below(6):
        places = list(inner) if isinstance(inner, dict) else range(len(inner))
        holder, place = inner, places[choices.below(len(places))]
    return holder, place


def _add(container: Any, choices: Choices) -> None:
    if isinstance(container, dict):
        container[_name(choices)] = anything(choices)
    elif isinstance(container, list):
        container.append(anything(choices))


def _bent(value: Any, choices: Choices) -> Any:
    """Return a similar value of another type or form."""
    if isinstance(value, str):
        odd = TEXTS[choices.below(_ODD)]
        at = choices.below(len(value) + 1)
        digits = value.translate({ord("0") + digit: 0x660 + digit for digit in range(10)})
        number: Any = (
            float(value) if value.replace(".", "", 1).isascii() and _is_number(value) else len(value)
        )
        bent = (value[:at] + odd + value[at:], value[:at], value.upper(), digits, number, [value], value * 9)
        return bent[choices.below(len(bent))]
    if isinstance(value, bool) or value is None:
        return (0, 1, "true", "null")[choices.below(4)]
    if isinstance(value, int | float):
        return (str(value), value == 1, -value, [value], value + 1)[choices.below(5)]
    if isinstance(value, list):
        named = dict.fromkeys(str(member).replace(CANARY, CANARY[:6]) for member in value)
        return (value * 2, named, str(value), value[::-1])[choices.below(4)]
    return list(value) if choices.below(2) else [list(member) for member in value.items()]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _name(choices: Choices) -> str:
    return NAMES[choices.below(len(NAMES))]


def text(valid: str, choices: Choices) -> str:
    bent = _bent(valid, choices) if choices.below(3) == 0 else TEXTS[choices.below(len(TEXTS))]
    return bent if isinstance(bent, str) else valid
