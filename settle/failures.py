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

    @property
    def gravity(self) -> int:
        """How much an answer wants attention; of several, the gravest is the command's own."""
        order = (Exit.FINE, Exit.REFUSED, Exit.CONFLICT, Exit.USAGE, Exit.NOT_FOUND, Exit.LIMBO, Exit.FAILED)
        return order.index(self)


class CommandFailed(Exception):
    """A command cannot do what it was asked to. The message is one line for the person who asked."""

    def __init__(self, code: Exit, message: str) -> None:
        super().__init__(message)
        self.code = code
