"""What a check has found, and the check of an account in which each call may be refused."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from infra.config import Settings


class Verdict(StrEnum):
    """Whether the account has what the stage needs."""

    FINE = "fine"
    LACKING = "lacking"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """The answer of one check: what is found, and what to do about it unless it is fine."""

    check: str
    verdict: Verdict
    found: str
    do: str = ""


@dataclass(frozen=True)
class Account:
    """The account and region in question, by the session that speaks to it, and the stage to deploy."""

    session: Any
    settings: Settings

    def client(self, service: str) -> Any:
        """Return a client of the account, and nothing else: no check makes a call that writes."""
        return self.session.client(service)


Check = Callable[[Account], Iterator[Finding]]


def look(account: Account, name: str, check: Check) -> Iterator[Finding]:
    """Yield what a check finds. A call that is refused or unanswered leaves its check unknown, not fine."""
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
    """Return whether an error says that there is no such thing, and not that the call was refused."""
    return error.response["Error"].get("Code") in codes
