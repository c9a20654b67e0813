from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from .plan import Plan


class Verdict(StrEnum):
    FINE = "fine"
    LACKING = "lacking"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """A check's result. `do` is the remedy, if one is needed."""

    check: str
    verdict: Verdict
    found: str
    do: str = ""


@dataclass(frozen=True)
class Account:
    session: Any
    plan: Plan

    def client(self, service: str) -> Any:
        return self.session.client(service)


Check = Callable[[Account], Iterator[Finding]]


def look(account: Account, name: str, check: Check) -> Iterator[Finding]:
    """Yield a check's findings. A refused or unanswered call gives UNKNOWN."""
    try:
        yield from check(account)
    except ClientError as error:
        code = error.response["Error"].get("Code", "")
        yield Finding(
            name,
            Verdict.UNKNOWN,
            f"{error.operation_name} is refused: {code}",
            "run it as a role that may read the account, such as ReadOnlyAccess"
            if "Denied" in code or "Unauthorized" in code
            else "run it again",
        )
    except BotoCoreError as error:
        yield Finding(name, Verdict.UNKNOWN, f"no answer: {type(error).__name__}", "run it again")


def absent(error: ClientError, *codes: str) -> bool:
    """Return whether an error reports a missing resource, not a refusal."""
    return error.response["Error"].get("Code") in codes
