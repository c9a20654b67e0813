from collections.abc import Mapping
from typing import Any

from settle.output.console import or_json, print_line


@or_json
def comparison(found: Mapping[str, Any]) -> None:
    for one in found.get("pairs", ()):
        print_line(f"MATCHED {_line(one['line'])}; {_order(one['order'])}")
    lines(found)


@or_json
def files(found: Mapping[str, Any]) -> None:
    for one in found["files"]:
        _file(one)
    _unreadable(found)


@or_json
def file(found: Mapping[str, Any]) -> None:
    _file(found)
    for line in found["lines"]:
        owner = f"{line['order']} of {line['customer']}" if line["order"] else "no order"
        print_line(f"  {_line(line)}: {owner}")
    _unreadable(found)


@or_json
def proposals(found: Mapping[str, Any]) -> None:
    for one in found["proposals"]:
        _proposal(one)
    if found["proposals"]:
        print_line(f"Another person looks at each, and books it: {found['command']}")
    else:
        print_line("no line that only the bank has names one account")
    _unreadable(found)


@or_json
def proposal(found: Mapping[str, Any]) -> None:
    _proposal(found)
    print_line(f"To book them, repeat the command with --digest {found['digest']}")


@or_json
def booked(found: Mapping[str, Any]) -> None:
    for one in found["booked"]:
        print_line(f"BOOKED {one['amount']} {one['currency']} to {one['account']}, {one['order']}")
    for one in found["refused"]:
        print_line(f"REFUSED {one['line']} to {one['account']}: {one['error']}: {one['message']}")


def _proposal(one: Mapping[str, Any]) -> None:
    print_line(f"{one['key']}, digest {one['digest']}, by {one['by']}: {one['reason']}")
    for line in one["lines"]:
        print_line(f"  {line['customer']}: {_line(line)}")


def _file(one: Mapping[str, Any]) -> None:
    print_line(f"{one['sha256']} {one['name']}, read at {one['read_at']}")
    for statement in one["statements"]:
        print_line(f"  {_statement(statement)}")


def _unreadable(found: Mapping[str, Any]) -> None:
    for row in found["unreadable"]:
        print_line(f"UNREADABLE {row}")


def _statement(one: Mapping[str, Any]) -> str:
    opening, closing = one["opening"], one["closing"]
    told = f"{one['account']} {one['first']} to {one['last']}: {one['lines']} lines"
    balances = "without balances" if closing is None else f"from {opening} to {closing}"
    return f"{told}, {balances} {one['currency']}"


def lines(found: Mapping[str, Any]) -> None:
    for one in found["statements"]:
        print_line(_statement(one))
    for one in found["findings"]:
        print_line(f"{one['kind'].upper()} {_told(one)}")
        print_line(f"  {one['do']}")
        for command in one["commands"]:
            print_line(f"  {command}")
    for order in found["open"]:
        print_line(f"OPEN {_order(order)}: its line may come later, or be in an earlier statement")
    _unreadable(found)
    for currency, sums in found["currencies"].items():
        print_line(f"{currency} at the end of {sums['day']}: {_sums(sums)}")
    cents = "agrees" if found["unsummed"] else "agrees to the cent"
    verdict = "NOT PROVEN" if found["unreadable"] else cents if found["agrees"] else "DOES NOT AGREE"
    if found["unsummed"]:
        print_line(f"NO BALANCES of {', '.join(found['unsummed'])}: only the lines were compared")
    differ, waiting = len(found["findings"]), len(found["open"])
    print_line(f"{verdict}: {found['matched']} lines matched, {differ} differ, {waiting} orders open")


def _told(one: Mapping[str, Any]) -> str:
    parts = [] if one["line"] or one["order"] else [f"{one['amount']} {one['currency']}"]
    if line := one["line"]:
        parts.append(_line(line))
    if order := one["order"]:
        parts.append(_order(order))
    if one["text"]:
        parts.append(one["text"])
    return "; ".join(parts)


def _line(line: Mapping[str, Any]) -> str:
    names = " / ".join(filter(None, (line["reference"], line["bank_reference"])))
    name = names or "without a reference"
    where = f"line {line['at']} of {line['file']}"
    return f"{line['side']} {line['amount']} {line['currency']} on {line['booked']}, {name} ({where})"


def _order(order: Mapping[str, Any]) -> str:
    name = "deposit" if order["side"] == "in" else "withdraw"
    money = f"{order['amount']} {order['currency']}"
    return f"{name} {order['key']} of {order['account']}, {money} on {order['day']}, {order['reference']}"


def _sums(sums: Mapping[str, str]) -> str:
    parts = [f"bank {sums['bank']}", f"books {sums['books']}"]
    named = {
        "only_bank": "only at the bank",
        "only_books": "only in the books",
        "early": "booked later",
        "late": "at the bank later",
        "before": "from before",
        "left": "not explained",
    }
    return ", ".join(
        (*parts, *(f"{text} {sums[name]}" for name, text in named.items() if sums[name].strip("0.-")))
    )
