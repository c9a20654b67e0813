"""A check of a deployed stack, its verdict, and the figures behind it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from settle.acceptance.run import Run

CHECK_SECONDS_MAX = 300
"""How long a check may take, unless it says otherwise: as long as AWS lets an Express execution run."""


class Verdict(StrEnum):
    """The answer of a check."""

    PROVEN = "proven"
    REFUTED = "refuted"
    NOT_APPLICABLE = "not applicable"
    """The stack is of a kind that cannot show it, such as the embedded AWS."""

    NOT_PERMITTED = "not permitted"
    """The caller's AWS identity may not make a call that the check needs."""


class Refuted(Exception):
    """The stack does otherwise than it should; the message has the figures."""


class NotApplicable(Exception):
    """The stack cannot show it; the message says why."""


@dataclass(frozen=True)
class Check:
    """A check by its name. `prove` returns the evidence, or raises Refuted or NotApplicable.

    `rows` are the beginnings of the rows of docs/internals/not-proven-locally.md that it tries on AWS. It is
    refuted if it has not ended after `seconds_max`.
    """

    name: str
    prove: Callable[[Run], str]
    rows: tuple[str, ...] = ()
    seconds_max: float = CHECK_SECONDS_MAX


@dataclass(frozen=True)
class Result:
    """The verdict of one check, and its evidence: one line with figures."""

    check: str
    verdict: Verdict
    evidence: str
    rows: tuple[str, ...]


def expect(what: str, found: Any, wanted: Any) -> None:
    """Raise Refuted unless the stack shows what it should."""
    if found != wanted:
        raise Refuted(f"{what}: is {found}, and should be {wanted}")
