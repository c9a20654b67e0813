import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from settle.accounts.accounts import open_account
from settle.local.demo.cost import Cost
from settle.local.record import PROJECT
from settle.settlements.machines import Machine
from settle.settlements.start import Ended, start
from settle.stack import Stack

EXAMPLES = PROJECT / "examples"


@dataclass(frozen=True)
class Settled:
    machine: Machine
    request: dict[str, Any]
    ended: Ended


def open_accounts(stack: Stack, run: str) -> int:
    opened = 0
    for account in _examples("accounts.jsonl"):
        open_account(stack, f"{account['account']}.{run}", account["currency"], account["deposit"])
        opened += 1
    return opened


def settle_all(stack: Stack, machine: Machine, run: str) -> Iterator[Settled]:
    for example in _examples("settlements.jsonl"):
        request = example | {
            "key": f"{example['key']}-{run}",
            "payer": f"{example['payer']}.{run}",
            "payee": f"{example['payee']}.{run}",
        }
        yield Settled(machine, request, start(stack, machine, json.dumps(request)))


def new_run(machine: Machine) -> str:
    return f"{secrets.token_hex(2)}{machine[0]}"


def describe(settled: list[Settled], costs: Mapping[str, Cost]) -> list[dict[str, Any]]:
    return [_line(one, costs.get(one.ended.execution, Cost())) for one in settled]


def _line(one: Settled, spent: Cost) -> dict[str, Any]:
    request, outcome = one.request, one.ended.outcome
    payer, payee = (request[party].rpartition(".")[0] for party in ("payer", "payee"))
    if outcome is None:
        ending = f"refused: {one.ended.error}"
    elif outcome["failure"]:
        ending = f"{outcome['status']}: {outcome['failure']['error']}"
    else:
        ending = f"{outcome['status']} (replayed)" if outcome["replayed"] else outcome["status"]
    return {
        "machine": str(one.machine),
        "key": request["key"],
        "parties": f"{payer} → {payee}",
        "amount": f"{request['amount']} {request['currency']}",
        "outcome": ending,
        "message": one.ended.message,
        "calls": spent.calls,
        "write_units": spent.write_units,
        "read_units": spent.read_units,
    }


def _examples(name: str) -> Iterator[dict[str, Any]]:
    for line in (EXAMPLES / name).read_text("utf-8").splitlines():
        yield json.loads(line)
