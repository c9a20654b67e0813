import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from settle.local import needs_extra

if TYPE_CHECKING:
    from infra.trials import Trial

__all__ = ["Trial", "trials"]


def trials() -> "Iterator[Trial]":
    """Return the requests that try the functions' roles. Raises CommandFailed outside a checkout."""
    os.environ.setdefault("JSII_NODE", str(Path(sys.executable).with_name("node")))  # from `make setup`
    with needs_extra("the table of grants: run it in a checkout"):
        from infra import trials as of_the_stack
    return of_the_stack.trials()
