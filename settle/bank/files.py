import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from io import BufferedReader
from pathlib import Path

from settle.bank import mt940, table
from settle.exit_codes import CommandFailed, Exit
from settlement.bank import camt
from settlement.bank.statement import Line, Statement, UnreadableStatement

_START_BYTES = 512
_SWIFT = re.compile(rb"\{1:|:940:|(?:[^<:\n]{0,80}\n){0,5}:20:")
"""MT940's beginning: its header, or its first field.

The bank may put up to five own lines before the field.
"""


def digest(path: str) -> str:
    with _opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def columns(path: str) -> table.Columns:
    with _opened(path) as file:
        try:
            return table.Columns.from_toml(tomllib.load(file))
        except ValueError as wrong:
            raise CommandFailed(Exit.USAGE, f"columns: {path}: {wrong}") from wrong


def read(
    path: str, currencies: Mapping[str, int], columns: table.Columns | None
) -> Iterator[Line | Statement]:
    """Yield a file's lines, and each statement after its lines. Raises CommandFailed with the line."""
    with _opened(path) as file:
        start = file.read(_START_BYTES).lstrip(b"\xef\xbb\xbf \r\n\t")
        file.seek(0)
        try:
            if _SWIFT.match(start):
                yield from mt940.read(file, currencies)
            elif columns and not start.startswith(b"<"):
                yield from table.read(file, currencies, columns)
            else:
                yield from camt.read(file, currencies)
        except UnreadableStatement as fault:
            raise CommandFailed(Exit.USAGE, f"statement: {path}: {fault}") from fault


def _opened(path: str) -> BufferedReader:
    try:
        if Path(path).exists() and not Path(path).is_file():
            raise CommandFailed(Exit.USAGE, f"statement: {path}: must be a file, not a folder or a pipe")
        return Path(path).open("rb")
    except OSError as failed:
        raise CommandFailed(Exit.USAGE, f"statement: {path}: {failed.strerror}") from failed
