import os
import tempfile
from contextlib import suppress
from pathlib import Path

from settle.exit_codes import CommandFailed, Exit


def ensure_can_write(path: Path, overwrite: bool) -> None:
    """Check that a path can be written, before anything is read. Raises CommandFailed."""
    if path.name == "-":
        raise CommandFailed(Exit.USAGE, "output: a page is no text for a terminal; name a file")
    if path.is_dir():
        raise CommandFailed(Exit.USAGE, f"output: {path} is a directory; name a file in it")
    if path.exists() and not path.is_file():
        raise CommandFailed(Exit.USAGE, f"output: {path} is a device or a pipe; name a file")
    if not path.parent.is_dir():
        raise CommandFailed(Exit.USAGE, f"output: {path.parent} is no directory; make it first")
    if path.exists() and not overwrite:
        raise CommandFailed(Exit.CONFLICT, f"output: {path} exists; name another file, or add --force")


def write(path: Path, page: str, overwrite: bool) -> None:
    """Write a page that only its owner may read. Raises CommandFailed.

    A reader finds the whole page or none. Without `overwrite`, another process's file stays.
    """
    ensure_can_write(path, overwrite)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        draft = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(page)
            if overwrite:
                draft.replace(path)
            else:
                os.link(draft, path)
        finally:
            with suppress(FileNotFoundError):
                draft.unlink()
    except FileExistsError:
        ensure_can_write(path, overwrite)
        raise
    except OSError as failed:
        why = failed.strerror or str(failed)
        raise CommandFailed(
            Exit.FAILED, f"output: {path}: {why}; name a file that you can write with -o"
        ) from failed
