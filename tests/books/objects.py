"""Makes entries and journal objects for the books' tests."""

import gzip
from datetime import datetime
from typing import Any

from settlement.journal import lines, seals
from tests.proof import sealed_town as towns
from tests.proof.town import Town
from tests.world.environment import NOW
from tests.world.sealed import inserted


def entry(town: Town, number: int, **change: Any) -> dict[str, Any]:
    """Return the journal line of another deposit, a copy of the town's first entry."""
    row = towns.entries(town)[0]
    sk = f"{row['posted_at']}#deposit-{number:08}:{row['step']}"
    return inserted({**row, "sk": sk, **change})


def an_object(*told: Any, at: datetime = NOW) -> tuple[str, bytes]:
    content = lines.content(told)
    return seals.object_name(content, at), gzip.compress(content)
