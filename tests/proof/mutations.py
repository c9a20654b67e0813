"""Mutations of raw rows, in DynamoDB's format."""

import copy
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from settlement.core.ledger import keys
from settlement.core.model.orders import Decision
from settlement.core.model.status import REVERSIBLE, Status, Step
from settlement.core.model.timestamps import timestamp
from settlement.proof.settlement_row import NAMES_ERASED
from tests.world.memory_dynamodb import Key

Item = dict[str, Any]
Rows = dict[Key, Item]


class Mutation(NamedTuple):
    """A change: kind of row, attribute, kind of change, and the new rows (None if deleted)."""

    row: str
    attribute: str
    change: str
    rows: dict[Key, Item | None]

    @property
    def kind(self) -> tuple[str, str, str]:
        return self[:3]

    def of(self, table: Rows) -> Rows:
        left = {key: item for key, item in table.items() if key not in self.rows}
        return left | {key: item for key, item in self.rows.items() if item is not None}


_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_HASH = re.compile(r"[0-9a-f]{64}")
_OF_PAYOUTS = ("RESERVED", "SENDING", "UNKNOWN", "ACCEPTED", "PAID", "CONFIRMED", "REFUSED", "RETURNED")
_MOVES = ("reserve", "pay", "refuse", "return", "give-back")
_CHOICES: dict[str, tuple[str, ...]] = {
    "status": (*Status, *_OF_PAYOUTS),
    "step": (
        *(*Step, *(step.reversal for step in REVERSIBLE), "resolve:1", "limbo:1", "deposit"),
        *(f"payout-{move}" for move in _MOVES),
    ),
    "said": ("accepted", "paid", "refused", "returned", "never seen", "unknown"),
    "stuck_step": tuple(step.reversal for step in REVERSIBLE),
    "decision": ("APPROVED", "REJECTED", *Decision),
    "verdict": ("APPROVED", "REJECTED", "paid", "not-paid", "ask", "give-back", "close"),
    "side": ("debit", "credit", "in", "out"),
    "currency": ("JPY", "USD"),
    "state": ("OPEN", "CLOSED", "HALF_OPEN"),
    "order": ("open", "deposit", "withdraw", "freeze", "unfreeze", "close"),
}
_ACCOUNTS = (
    *("alice", "bob", "carol", "dave", "erin", "fees:EUR", "losses:EUR", "external:EUR"),
    *("transit:EUR", "suspense:EUR"),
)
_PARTIES = ("payer", "payee", "account", "debit", "credit")


_BY_SORT_KEY = ("DESTINATION", "BANK_LINE")


def kind_of(item: Item) -> str:
    """Return a row's kind, with its status or step if it has one."""
    kind = item["pk"]["S"].partition("#")[0]
    if kind == "SETTLEMENT":
        return f"settlement {item['status']['S']}"
    if kind in ("ENTRIES", "EVIDENCE"):
        return f"{'entry' if kind == 'ENTRIES' else 'evidence'} {item['step']['S'].partition(':')[0]}"
    if kind in _BY_SORT_KEY:
        return f"{kind.lower()} {item['sk']['S'].rpartition('#')[2].lower()}"
    if kind == "PAYOUT":
        return f"payout {item['status']['S']}"
    if kind == "ACCOUNT" and item.get("available") == {"N": "0"}:
        return "account, empty"
    names = {"ACCOUNT": "account", "SWEPT": "sweep", "KYC_EVENT": "event"}
    return names[kind] if kind in names else str(kind).lower()


def singles(rows: Rows) -> Iterator[Mutation]:
    for key, item in rows.items():
        kind, twin = kind_of(item), _twin(rows, item)
        for name in sorted(item.keys() - {"pk", "sk"}):
            for change, value in _changes(name, item[name]):
                if _said(name, value) == _said(name, item[name]):
                    continue
                yield Mutation(kind, name, change, {key: _with(item, name, value)})
                if name == "posted_at" and change == "changed":
                    yield Mutation(kind, name, change, {key: _listed(_with(item, name, value))})
        if twin:
            other = rows[twin]
            for name in sorted((item.keys() | other.keys()) - {"pk", "sk"}):
                if _said(name, item.get(name)) != _said(name, other.get(name)):
                    swapped: dict[Key, Item | None] = {
                        key: _with(item, name, other.get(name)),
                        twin: _with(other, name, item.get(name)),
                    }
                    yield Mutation(kind, name, "swapped", swapped)
                    if name == "posted_at":
                        relisted = {one: _listed(row) for one, row in swapped.items() if row}
                        yield Mutation(kind, name, "swapped", {**relisted})
        if keys.is_settlement({"sk": key[1]}) and NAMES_ERASED not in item:
            erased: dict[Key, Item | None] = {key: _with(item, NAMES_ERASED, item["deadline_at"])}
            yield Mutation(kind, NAMES_ERASED, "added", erased)
        yield Mutation(kind, "the row", "deleted", {key: None})
        for copied in _copies(rows, item):
            address = copied["pk"]["S"], copied["sk"]["S"]
            if address not in rows:
                yield Mutation(kind, "the row", "duplicated", {address: copied})


def _with(item: Item, name: str, value: Any) -> Item:
    left = {other: item[other] for other in item if other != name}
    return left | ({name: value} if value is not None else {})


def _listed(item: Item) -> Item:
    """Return an order's row, moved in the index to its `posted_at`."""
    place = keys.orders_index(item["posted_at"]["S"])
    return {name: {"S": place[name]} if name in place else value for name, value in item.items()}


def _said(name: str, value: Any) -> Any:
    return {"N": "0"} if value is None and name == "limbo_cases" else value


def _twin(rows: Rows, item: Item) -> Key | None:
    kind, name = kind_of(item), _name(item)
    others = (
        key for key, row in rows.items() if row is not item and (kind_of(row), _name(row)) == (kind, name)
    )
    return next(others, None)


def _name(item: Item) -> str:
    return item["step"]["S"] if "step" in item else ""


def _changes(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield "removed", None
    ((kind, content),) = value.items()
    yield "other type", {"N": "1"} if kind != "N" else {"S": content}
    if kind == "N":
        number = int(content)
        for one_off in (number + 1, number - 1):
            yield "changed", {"N": str(one_off)}
        yield "fraction", {"N": f"{number}.5"}
        yield "huge", {"N": str(10**37)}
    elif kind == "S":
        for other in _texts(name, content):
            if other != content:
                yield "changed", {"S": other}
    elif kind == "SS":
        yield "changed", {"SS": [*content, "order-of-another-one"]}
        if len(content) > 1:
            yield "changed", {"SS": content[1:]}
    elif kind == "M":
        for member in content:
            for change, other in _changes(member, content[member]):
                left = {key: content[key] for key in content if key != member}
                yield change, {"M": left | ({member: other} if other is not None else {})}


def _texts(name: str, content: str) -> tuple[str, ...]:
    if name in _CHOICES:
        return _CHOICES[name]
    if name in _PARTIES:
        return _ACCOUNTS
    if _INSTANT.fullmatch(content):
        moment = datetime.fromisoformat(content)
        later = (timedelta(milliseconds=1), timedelta(seconds=-1), timedelta(days=1), timedelta(days=-1))
        return tuple(timestamp(moment + by) for by in later)
    if _HASH.fullmatch(content):
        return (content[::-1], f"{content[1:]}0")
    return _partitions(content) if name == "gsi1pk" else (f"{content}x",)


def _partitions(content: str) -> tuple[str, ...]:
    if content.startswith("PAYOUT"):
        shards = map(keys.payouts_partition, range(keys.PAYOUT_SHARDS))
        return (*shards, keys.PAYOUT_CASES, keys.PAYOUT_LINES, keys.PAYOUT_LINE_FAULTS)
    in_flight = (keys.in_flight_partition(shard) for shard in range(keys.IN_FLIGHT_SHARDS))
    return (*in_flight, keys.LIMBO, keys.orders_partition("2026-10"))


def _copies(rows: Rows, item: Item) -> Iterator[Item]:
    """Yield the row under other legal keys, and change the attributes that repeat the key."""
    pk, sk = item["pk"]["S"], item["sk"]["S"]
    kind, _, name = pk.partition("#")
    other_keys = [row[0].partition("#")[2] for row in rows if row[1] == "SETTLEMENT"] + [
        "order-unclaimed-00001"
    ]
    again = copy.deepcopy(item)
    if kind == "SETTLEMENT":
        yield again | _key("SETTLEMENT#order-unclaimed-00001", sk)
    elif kind == "ACCOUNT":
        yield again | _key("ACCOUNT#erin", sk)
    elif kind == "ENTRIES":
        yield from _entries_like(item, other_keys)
    elif kind == "EVIDENCE":
        for key in other_keys:
            yield again | _key(f"EVIDENCE#{key}", f"{key}:{item['step']['S']}")
        for step in ("verify", "review", "reverse", "limbo:1", "limbo:2", "resolve:1", "resolve:2"):
            yield again | _key(pk, f"{name}:{step}") | {"step": {"S": step}}
    else:
        yield from _copies_of_others(item, other_keys)


def _copies_of_others(item: Item, other_keys: list[str]) -> Iterator[Item]:
    pk, sk = item["pk"]["S"], item["sk"]["S"]
    kind, again = pk.partition("#")[0], copy.deepcopy(item)
    if kind == "ORDER":
        yield again | _key("ORDER#order-unclaimed-00001", sk)
    elif kind == "SWEPT":
        yield again | _key(pk, "2026-11-20T11:59")
        yield again | _key(f"{pk.rpartition('#')[0]}#{(int(pk.rpartition('#')[2]) + 1) % 16}", sk)
    elif kind == "PAYOUT":
        yield again | _key("PAYOUT#order-unclaimed-00001", sk)
    elif kind == "PAYOUT_DAY":
        yield again | _key(pk, "2026-11-19")
    elif kind == "DESTINATION":
        yield again | _key("DESTINATION#elsewhere", sk)
    elif kind == "PAYOUT_CASE":
        yield again | _key(pk, f"000002{sk[6:]}")
    elif kind in ("BANK_LINE", "PAYOUT_LINE"):
        yield again | _key(f"{kind}#{'3a' * 32}", sk)
    elif kind == "WAITING":
        for key in other_keys:
            yield again | _key(f"WAITING#{key}", sk) | {"key": {"S": key}}
    elif kind == "KYC_EVENT":
        yield again | _key("KYC_EVENT#evt_another", sk)
        for key in other_keys:
            yield again | _key("KYC_EVENT#evt_another", sk) | {"key": {"S": key}}
    else:
        yield again | _key(pk, "another")


def _entries_like(item: Item, other_keys: list[str]) -> Iterator[Item]:
    """Yield the entry at another time, or for another settlement, step or account."""
    step, side, at = item["step"]["S"], item["side"]["S"], item["posted_at"]["S"]
    account = item[side]["S"]
    key = item["sk"]["S"][len(at) + 1 : -len(step) - 1]
    later = timestamp(datetime.fromisoformat(at) + timedelta(seconds=5))
    opposite = "credit" if side == "debit" else "debit"
    for other_account, other_at, other_key, other_step in (
        (account, later, key, step),
        *((account, at, other, step) for other in other_keys),
        *((account, at, key, other) for other in _other_steps(step)),
        *((other, at, key, step) for other in ("erin", "alice", "bob", "fees:EUR")),
    ):
        address = keys.entry(other_account, other_at, other_key, other_step)
        is_escrow = step != "deposit" and not step.startswith("payout-")
        beside = f"escrow:{other_key}" if is_escrow else item[opposite]["S"]
        yield {
            **copy.deepcopy(item),
            **_key(address["pk"], address["sk"]),
            **{"posted_at": {"S": other_at}, "step": {"S": other_step}},
            **{side: {"S": other_account}, opposite: {"S": beside}},
        }


def _other_steps(step: str) -> tuple[str, ...]:
    if step.startswith("payout-"):
        return tuple(f"payout-{move}" for move in _MOVES)
    return (*Step, "compensate:hold", "compensate:fee", "resolve:1")


def _key(pk: str, sk: str) -> Item:
    return {"pk": {"S": pk}, "sk": {"S": sk}}
