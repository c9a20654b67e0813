from collections.abc import Iterator
from typing import TYPE_CHECKING

from settle.local import constructs

if TYPE_CHECKING:
    from infra.trials import Trial

__all__ = ["Trial", "trials"]


def trials() -> "Iterator[Trial]":
    """Return requests that try the functions' roles. Raises CommandFailed without the extra."""
    found: Iterator[Trial] = constructs.module("the table of grants", "trials").trials()
    return found
