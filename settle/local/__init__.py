"""The embedded local AWS, the simulated KYC provider and the demo: the optional extra `local`.

`record` and this module need nothing but the standard library; all others need the extra.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from settle.exit_codes import CommandFailed, Exit


@contextmanager
def needs_extra(purpose: str, extra: str = "local") -> Iterator[None]:
    """Report an import that fails for lack of the extra as one line with the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as missing:
        install = f"pip install '.[{extra}]'"  # a folder: no registry has the package
        raise CommandFailed(
            Exit.FAILED, f"{purpose}: {missing.name} is not installed; run in a checkout: {install}"
        ) from missing
