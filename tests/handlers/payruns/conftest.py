"""Persons' orders on pay runs, and PayLines with the files' bucket, on a table that signs its rows."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from handlers import _dependencies
from handlers.payouts import _payouts
from handlers.payruns import _orders
from settlement.core.ledger import keys
from settlement.core.model import money
from settlement.payruns import bucket
from settlement.payruns.file import Line, RunFile, digest_of, key_of, run_of
from settlement.payruns.run import Run
from tests.handlers.conftest import Calls
from tests.unit.payruns.rows import FILE, HEADER
from tests.world.functions import Context
from tests.world.ledger import signing
from tests.world.memory_s3 import MemoryS3
from tests.world.orders import PROOF, answered, request
from tests.world.services import throttled

ADA, BEA, CARL = (f"arn:aws:iam::123456789012:user/{name}" for name in ("ada", "bea", "carl"))
BEA_AGAIN = "arn:aws:sts::123456789012:assumed-role/Approver/Bea"
RULES = {"over": {"EUR": 100_00, "JPY": 1_000}, "lines_over": 90}
RUN = run_of(digest_of(FILE.content))


def lines(count: int, payee: str = "bob", amount: str = "0.01") -> RunFile:
    made = [Line(number=one, payee=payee, amount=amount, currency="EUR") for one in range(1, count + 1)]
    return RunFile(HEADER, made)


@dataclass(frozen=True, kw_only=True)
class Desk:
    calls: Calls
    s3: MemoryS3

    def order(self, route: str, body: Any, by: str = ADA) -> dict[str, Any]:
        event = request(route, body, by, **PROOF)
        return answered(self.calls.handlers["TakeOrder"](event, Context()))

    def propose(self, file: RunFile = FILE, by: str = ADA, **changed: Any) -> dict[str, Any]:
        digest, config = digest_of(file.content), _dependencies.config
        self.s3.put_object(Bucket="runs", Key=bucket.name_of(digest), Body=file.content)
        sums = {code: money.render(of, config.currencies[code]) for code, of in file.sums(config).items()}
        told = {
            "digest": digest,
            **{name: getattr(file.header, name) for name in ("name", "kind", "payer")},
            "lines": len(file.lines),
            "sums": sums,
            "reason": "the sellers of November",
        }
        return self.order("propose-payrun", told | changed, by)

    def give(self, route: str, by: str = ADA, file: RunFile = FILE, **changed: Any) -> dict[str, Any]:
        digest = digest_of(file.content)
        return self.order(f"{route}-payrun", {"run": run_of(digest), "digest": digest} | changed, by)

    def go(self, file: RunFile = FILE, approvers: Sequence[str] = (BEA,)) -> str:
        """Propose, approve and run a file; return the run."""
        self.propose(file)
        for person in approvers:
            self.give("approve", person, file)
        return str(self.give("run", ADA, file)["run"])

    def pay(self, left_ms: Iterator[int] | None = None) -> dict[str, int]:
        answer: dict[str, int] = self.calls.handlers["PayLines"]({}, Context(left_ms))
        return answer

    def run(self, run: str = RUN) -> Run:
        row = self.calls.ledger.row(keys.payrun(run))
        assert row
        return Run.from_row(row)

    def alter(self, place: keys.Row, **changed: Any) -> None:
        """Overwrite attributes of a row, bypassing all conditions and signatures."""
        row = self.calls.ledger.row(place)
        assert row
        self.calls.ledger.put(row | changed)

    def settle(self, run: str, *numbers: int, status: str = "SETTLED") -> None:
        """End payments as their machines would."""
        for number in numbers:
            finished = {"status": status, "finished_at": "2026-11-20T12:00:00.123Z"}
            self.alter(keys.settlement(key_of(run, number)), **finished)


@pytest.fixture
def desk(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    s3 = MemoryS3()
    monkeypatch.setattr(_dependencies, "store", signing(calls.ledger).store)
    monkeypatch.setattr(bucket, "_client", s3)
    monkeypatch.setenv("PAYRUNS_BUCKET", "runs")
    monkeypatch.setenv("PAYRUNS", json.dumps(RULES))
    monkeypatch.setenv("LINES_PER_SECOND", "inf")
    for cached in (_orders.rules, _payouts.config):
        cached.cache_clear()
    yield Desk(calls=calls, s3=s3)
    for cached in (_orders.rules, _payouts.config):
        cached.cache_clear()


class Throttled(MemoryS3):
    def get_object(self, **asked: Any) -> Any:
        raise throttled("GetObject")
