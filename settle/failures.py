"""How a command ends when it does not end well: one line and a stable exit code."""

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes of `settle`; scripts rely on them."""

    FINE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    LIMBO = 5
    CONFLICT = 6


class CommandFailed(Exception):
    """A command cannot do what it was asked to. The message is one line for the person who asked."""

    def __init__(self, code: Exit, message: str) -> None:
        super().__init__(message)
        self.code = code
