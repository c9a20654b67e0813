"""The desk with pay runs: the bucket of files, and PayLines as its schedule calls it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from handlers.core import _workers
from handlers.payruns import _orders
from settle import instants
from settle.payruns import checking, deciding, proposing, sheet
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import money
from settlement.payruns import bucket
from settlement.payruns.file import Header, Kind, Line, RunFile, digest_of, key_of
from tests.settle.desk import ADA, GRACE, Desk, call
from tests.world.environment import NOW
from tests.world.memory_s3 import MemoryS3

NAME = "sellers-2026-11"
HEAD = "payee,amount,currency,reference"
LINES = ("bob,48.20,EUR,November", "shop,10.00,EUR,", "bob,1.05,EUR,a tip")
RULES = {"over": {"EUR": 400_00}, "lines_over": 90}


@dataclass
class Runs:
    desk: Desk
    s3: MemoryS3
    folder: Path

    def written(self, *lines: str, head: str = HEAD) -> str:
        file = self.folder / "sellers.csv"
        file.write_text("\n".join((head, *(lines or LINES))))
        return str(file)

    def propose(self, *lines: str, name: str = NAME, head: str = HEAD, **header: Any) -> dict[str, Any]:
        """Propose lines as Ada, without the command."""
        told = Header(**{"name": name, "kind": Kind.PAYMENTS, "payer": "alice"} | header)
        found = sheet.read(self.written(*lines, head=head), told.kind, self.desk.stack.config)
        checked = checking.check(self.desk.stack, found, told, instants.now())
        assert checked.problems == []
        return proposing.propose(self.desk.stack, checked, "the sellers")

    def smuggle(self, *lines: Line, **facts: Any) -> dict[str, Any]:
        """Propose lines as Ada, past all checks of the command."""
        found = RunFile(Header(name=NAME, kind=Kind.PAYMENTS, payer="alice"), lines)
        digest, config = digest_of(found.content), self.desk.stack.config
        self.s3.put_object(Bucket="runs", Key=bucket.name_of(digest), Body=found.content)
        sums = {code: money.render(of, config.currencies[code]) for code, of in found.sums(config).items()}
        body = {"name": NAME, "kind": "payments", "payer": "alice", "lines": len(lines), "sums": sums}
        answer = self.desk.door.send("propose-payrun", {"digest": digest, "reason": "x", **body, **facts})
        assert answer.status == 200, answer
        return answer.content

    def order(self, verb: str, told: dict[str, Any]) -> dict[str, Any]:
        self.desk.door.by = GRACE if verb == "approve" else ADA
        try:
            return deciding.order(self.desk.stack, verb, told["run"], told["digest"], instants.now())
        finally:
            self.desk.door.by = ADA

    def go(self, *lines: str, **header: Any) -> str:
        """Propose, approve and run lines; return the run."""
        told = self.propose(*lines, **header)
        for verb in ("approve", "run"):
            self.order(verb, told)
        return str(told["run"])

    def pay(self) -> None:
        assert call("PayLines", {})["waiting"] == 0

    def paid(self, *lines: str, **header: Any) -> str:
        run = self.go(*lines, **header)
        self.pay()
        return run

    def row(self, place: Row) -> Row:
        row = self.desk.ledger.row(place)
        assert row is not None
        return row

    def settlement(self, run: str, number: int, **changed: Any) -> None:
        """Overwrite attributes of a line's payment."""
        self.desk.alter(keys.settlement(key_of(run, number)), **changed)


@pytest.fixture
def runs(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    s3 = MemoryS3()
    monkeypatch.setattr(bucket, "_client", s3)
    monkeypatch.setattr(instants, "now", lambda: NOW + timedelta(hours=1))
    monkeypatch.setattr(_workers, "each", lambda act, items: [act(one) for one in items])
    desk.stack.clients["s3"] = s3
    desk.stack.outputs["PayRunsBucket"] = "runs"
    variables = {"PAYRUNS_BUCKET": "runs", "PAYRUNS": json.dumps(RULES), "LINES_PER_SECOND": "inf"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    _orders.rules.cache_clear()
    yield Runs(desk, s3, tmp_path)
    _orders.rules.cache_clear()
