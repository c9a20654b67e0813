from enum import IntEnum

from settlement.core.model.status import Status


class Exit(IntEnum):
    """The exit codes of `settle`; scripts rely on them."""

    FINE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    LIMBO = 5
    CONFLICT = 6
    IN_FLIGHT = 7

    @classmethod
    def of_status(cls, status: str) -> "Exit":
        return _OF_STATUS[Status(status)]

    @property
    def gravity(self) -> int:
        """The code's rank: a command with several answers ends with the gravest."""
        return _BY_GRAVITY.index(self)


_OF_STATUS = {
    Status.PROCESSING: Exit.IN_FLIGHT,
    Status.SETTLED: Exit.FINE,
    Status.REJECTED: Exit.REFUSED,
    Status.COMPENSATING: Exit.IN_FLIGHT,
    Status.COMPENSATED: Exit.REFUSED,
    Status.LIMBO: Exit.LIMBO,
}
_BY_GRAVITY = (
    Exit.FINE,
    Exit.REFUSED,
    Exit.CONFLICT,
    Exit.USAGE,
    Exit.NOT_FOUND,
    Exit.IN_FLIGHT,
    Exit.LIMBO,
    Exit.FAILED,
)


class CommandFailed(Exception):
    """A command that failed with an exit code.

    The message is one line; `details` are further lines.
    """

    def __init__(self, code: Exit, message: str, details: str = "") -> None:
        super().__init__(message)
        self.code, self.details = code, details


def message_of(failed: Exception) -> str:
    return str(failed) if isinstance(failed, CommandFailed) else f"{type(failed).__name__}: {failed}"
