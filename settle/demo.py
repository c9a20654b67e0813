"""The demo: real requests through both real machines of the embedded stack."""

import json
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from settle import accounts, cost
from settle.local import PROJECT
from settle.stack import Stack
from settle.starting import Ended, Machine, start

EXAMPLES = PROJECT / "examples"


@dataclass(frozen=True)
class Settled:
    """One request of the demo and how it ended."""

    machine: Machine
    request: dict[str, Any]
    ended: Ended


def open_accounts(stack: Stack, run: str) -> int:
    """Open this run's accounts; return how many."""
    opened = 0
    for account in _examples("accounts.jsonl"):
        accounts.open_account(stack, f"{account['account']}.{run}", account["currency"], account["deposit"])
        opened += 1
    return opened


def settle_all(stack: Stack, machine: Machine, run: str) -> Iterator[Settled]:
    """Send every example request to a machine, one after the other, under this run's keys and accounts."""
    for example in _examples("settlements.jsonl"):
        request = example | {
            "key": f"{example['key']}-{run}",
            "payer": f"{example['payer']}.{run}",
            "payee": f"{example['payee']}.{run}",
        }
        yield Settled(machine, request, start(stack, machine, json.dumps(request)))


def new_run(machine: Machine) -> str:
    """A suffix that keeps the keys and accounts of one run on one machine apart from all others."""
    return f"{secrets.token_hex(2)}{machine[0]}"


def costs(stack: Stack, since: float) -> dict[str, cost.Cost]:
    """What each execution has cost since an instant (Unix time, seconds)."""
    time.sleep(1)  # the last function's log lines are on their way
    return cost.by_execution(stack, int(since * 1000))


def describe(settled: list[Settled], costs: Mapping[str, cost.Cost]) -> dict[str, Any]:
    """Every request: how it ended, and what it cost."""
    return {"settlements": [_line(one, costs.get(one.ended.execution, cost.Cost())) for one in settled]}


def _line(one: Settled, spent: cost.Cost) -> dict[str, Any]:
    request, outcome = one.request, one.ended.outcome
    payer, payee = (request[party].rpartition(".")[0] for party in ("payer", "payee"))
    if outcome is None:
        ending = f"refused: {one.ended.error}"
    elif outcome["failure"]:
        ending = f"{outcome['status']}: {outcome['failure']['error']}"
    else:
        ending = outcome["status"] + " (replayed)" * outcome["replayed"]
    return {
        "machine": str(one.machine),
        "key": request["key"],
        "parties": f"{payer} → {payee}",
        "amount": f"{request['amount']} {request['currency']}",
        "outcome": ending,
        "message": one.ended.message,
        "calls": spent.calls,
        "units": spent.units,
    }


def _examples(name: str) -> Iterator[dict[str, Any]]:
    for line in (EXAMPLES / name).read_text().splitlines():
        yield json.loads(line)
