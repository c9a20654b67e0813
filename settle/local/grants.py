import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from settle.local import needs_extra
from settle.local.record import CONSTRUCTS

if TYPE_CHECKING:
    from infra.trials import Trial

__all__ = ["Trial", "trials"]


def trials() -> "Iterator[Trial]":
    """Return the requests that try the functions' roles. Raises CommandFailed without the extra."""
    os.environ.setdefault("JSII_NODE", str(Path(sys.executable).with_name("node")))  # from `make setup`
    with needs_extra("the table of grants"):
        of_the_stack = import_module(f"{CONSTRUCTS}.trials")
    found: Iterator[Trial] = of_the_stack.trials()
    return found
