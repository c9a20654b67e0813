import hashlib
import io
from datetime import datetime
from typing import Any

import pytest

from settlement.bank.record import File
from settlement.bank.recorded import BankRecord
from settlement.bank.recording import Recorder
from tests.settle.desk import Desk
from tests.world.bank_files import camt


def on_record(desk: Desk, lines: Any, now: datetime, **fields: Any) -> str:
    """Put a statement on record; return its digest."""
    content = camt(lines, **{"opening": "0.00"} | fields)
    digest = hashlib.sha256(content).hexdigest()
    recorder = Recorder(BankRecord(desk.stack.store, desk.stack.config, pytest.fail), now, lambda: True)
    found = recorder.read(io.BytesIO(content))
    recorder.add(io.BytesIO(content), found, File(digest, "day.xml", now.isoformat()))
    return digest
