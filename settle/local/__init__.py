"""The optional extra `local`. Only `record` and this module work without it."""

from collections.abc import Iterator
from contextlib import contextmanager

from settle.exit_codes import CommandFailed, Exit


@contextmanager
def needs_extra(purpose: str, extra: str = "local") -> Iterator[None]:
    """Raise CommandFailed with the install command for an import without the extra."""
    try:
        yield
    except ModuleNotFoundError as missing:
        install = f"pip install 'settlement-saga[{extra}]'"
        raise CommandFailed(
            Exit.FAILED, f"{purpose}: {missing.name} is not installed; run: {install}"
        ) from missing
