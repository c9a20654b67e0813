from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from settle.acceptance.run import Run

CHECK_SECONDS_MAX = 300
"""A check's default time limit: AWS's limit for an Express execution."""


class Verdict(StrEnum):
    PROVEN = "proven"
    REFUTED = "refuted"
    NOT_APPLICABLE = "not applicable"
    """The check cannot run on this stack. Some checks cannot run on the embedded AWS."""

    NOT_PERMITTED = "not permitted"
    """AWS denied a call of the check."""

    THROTTLED = "not proven: throttled"


class Refuted(Exception):
    """A check found a fault. The message has the figures."""


class NotApplicable(Exception):
    """A check cannot run on this stack. The message has the reason."""


@dataclass(frozen=True)
class Check:
    """A check. `prove` returns the evidence, or raises Refuted or NotApplicable.

    - `rows`: the first words of the rows in docs/internals/not-proven-locally.md that the check tries.
    - `seconds_max`: after this time the check is refuted.
    """

    name: str
    prove: Callable[[Run], str]
    rows: tuple[str, ...] = ()
    seconds_max: float = CHECK_SECONDS_MAX


@dataclass(frozen=True)
class Result:
    check: str
    verdict: Verdict
    evidence: str
    rows: tuple[str, ...]


def expect(what: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        raise Refuted(f"{what}: is {found}, and should be {wanted}")
