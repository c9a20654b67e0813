import os
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.local import needs_extra
from settle.local.record import CONSTRUCTS


def module(purpose: str, name: str) -> Any:
    """Import the constructs' module. Raises CommandFailed without the extra, or Node.js."""
    node = Path(sys.executable).with_name("node")  # the extra `local` brings it
    if node.exists():
        os.environ.setdefault("JSII_NODE", str(node))
    elif not shutil.which("node"):
        raise CommandFailed(
            Exit.FAILED, f"{purpose}: Node.js is not installed; run: pip install 'settlement-saga[local]'"
        )
    with needs_extra(purpose):
        return import_module(f"{CONSTRUCTS}.{name}")
