"""The optional extra `local`. Without it, only `record` and this module work."""

from collections.abc import Iterator
from contextlib import contextmanager

from settle.exit_codes import CommandFailed, Exit


@contextmanager
def needs_extra(purpose: str, extra: str = "local") -> Iterator[None]:
    """Raise CommandFailed with the install command if an import lacks the extra."""
    try:
        yield
    except ModuleNotFoundError as missing:
        install = f"pip install 'settlement-saga[{extra}]'"
        raise CommandFailed(
            Exit.FAILED, f"{purpose}: {missing.name} is not installed; run: {install}"
        ) from missing
