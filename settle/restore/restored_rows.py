from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from settle.exit_codes import CommandFailed, Exit
from settle.journal import sealed
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.timestamps import timestamp
from settlement.core.store import batch
from settlement.journal import lines, seals
from settlement.journal.objects import UNREADABLE, Copy, before, lines_of
from settlement.retention.expiry import EXPIRES
from settlement.signing.signature import RowKeys


@dataclass
class Lacking:
    """The missing rows of one settlement, order or account.

    `proven` counts rows whose sealed copy, signed again, has the sealed digest. Other copies lack texts
    that a locked object must not hold.
    """

    key: str
    is_new: bool = False
    rows: int = 0
    proven: int = 0
    timed: list[tuple[str, str, int | None, str | None]] = field(default_factory=list)

    @property
    def steps(self) -> list[tuple[str, int | None, str | None]]:
        return [told[1:] for told in sorted(self.timed, key=lambda told: told[:2])]


class Missing(NamedTuple):
    """Missing rows by key, rows that differ from their sealed copy, and the latest sealed time."""

    lacking: list[Lacking]
    changed: list[str]
    until: str | None


def missing(target: Stack, source: str, instant: datetime, now: datetime) -> Missing:
    """Compare a restored table with the rows sealed since `instant`. These are held in memory.

    Raises CommandFailed for an unreadable or changed object.
    """
    images, until, changed = dict[tuple[str, str], Any](), 0, list[str]()
    for line in _since(sealed.copy(target, source, "from"), instant):
        image = line["new"]
        until = max(until, int(line["at"]))
        if EXPIRES in image["row"] and int(image["row"][EXPIRES]) <= now.timestamp():
            continue
        first = images.setdefault(lines.subject(line), image)
        if first["sha256"] != image["sha256"]:
            changed.append(f"{' '.join(lines.subject(line))}: was sealed twice, with different content")
    for row in batch.read(target.store, [{"pk": pk, "sk": sk} for pk, sk in images]):
        image = images.pop((row["pk"], row["sk"]))
        if not lines.is_as_sealed(row, image):
            changed.append(f"{row['pk']} {row['sk']}: is not as it was sealed")
    latest = timestamp(datetime.fromtimestamp(until, UTC)) if until else None
    return Missing(_by_key(images, target.row_keys if images else RowKeys({})), changed, latest)


def _since(copy: Copy, instant: datetime) -> Iterator[Any]:
    for one in copy.objects(seals.OBJECTS, before(instant)):
        try:
            told = [line for line in lines_of(one.name, copy.read(one)) if line["event"] in lines.PUTS]
            for line in told:
                int(line["at"]), line["new"]["sha256"], lines.subject(line)
                int(line["new"]["row"].get(EXPIRES, 0))
        except UNREADABLE as fault:
            raise CommandFailed(Exit.FAILED, f"{one.name}: cannot be read: {fault}") from fault
        yield from told


def _by_key(images: dict[tuple[str, str], Any], row_keys: RowKeys) -> list[Lacking]:
    found: dict[str, Lacking] = {}
    for image in images.values():
        row = image["row"]
        kind, name = keys.subject(row)
        key = _key_of_entry(row) if kind == "ENTRIES" else name
        one = found.setdefault(key, Lacking(key))
        one.rows += 1
        one.proven += _is_whole(image, row_keys)
        one.is_new |= kind in ("SETTLEMENT", "ORDER", "ACCOUNT")
        if kind in ("ENTRIES", "EVIDENCE"):
            moved = (row.get("amount"), row.get("currency")) if kind == "ENTRIES" else (None, None)
            one.timed.append((str(row.get("posted_at", "")), str(row.get("step", "")), *moved))
        elif kind == "ORDER":
            one.timed.append((str(row.get("posted_at", "")), f"order:{row.get('order', '')}", None, None))
    return sorted(found.values(), key=lambda one: (min(one.timed)[0] if one.timed else "", one.key))


def _key_of_entry(row: Row) -> str:
    return str(row["sk"]).partition("#")[2].removesuffix(f":{row.get('step', '')}")


def _is_whole(image: Any, row_keys: RowKeys) -> bool:
    """Return whether a row's copy, signed again with one of the keys, has the sealed digest.

    False for settlements and accounts: they have changed since.
    """
    row = image["row"]
    if not row["pk"].startswith(lines.IMMUTABLE):
        return False
    signed = (RowKeys({number: key}).signed(row) for number, key in row_keys.by_number.items())
    return any(lines.digest(one) == image["sha256"] for one in signed)
