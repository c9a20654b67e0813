"""Renders the tables of roles.md: each role's permissions, and the damage that a thief of it can do."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import tests.world.environment  # noqa: F401 - the functions read it when they are imported
from infra.rooms import HANDLERS
from tests.infra.attacks import ATTACKS, End, ends
from tests.infra.evaluator import ENCLOSING, LEADING, listed, policy
from tests.infra.integrations import roles, users
from tests.infra.payouts import attacks as on_payouts
from tests.infra.stack import FUNCTIONS, OF_PAYS_OUT, PAYS_OUT, granted

STAGE, TABLE = PAYS_OUT, "${LedgerTable.Arn}"
_FUNCTIONS = (*FUNCTIONS, *OF_PAYS_OUT)
_GAINS = (End.NAMED, End.UNSIGNED, End.COMPARED)
_EVERYWHERE = ("kms:", "logs:", "xray:")
_STARTS = "states:StartExecution"
_ARN = re.compile(r"arn:AWS::Partition:\w+:AWS::Region:AWS::AccountId:|\.(?:Arn|Id)\b")


def permissions() -> Iterator[Sequence[str]]:
    """Yield a line for each function: rows of single calls and of transactions, and other permissions."""
    for function in _FUNCTIONS:
        alone, together = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
        for statement in policy(STAGE, function):
            condition = statement.get("Condition", {})
            rows = condition.get("ForAllValues:StringLike", {}).get(LEADING)
            if statement["Effect"] == "Allow" and statement["Resource"] == TABLE and not condition:
                rows = "*"  # of every kind
            if statement["Effect"] == "Allow" and rows:
                kinds = together if ENCLOSING in json.dumps(condition) else alone
                for action in listed(statement["Action"]):
                    kinds[action.removeprefix("dynamodb:")] += listed(rows)
        money = [f"`{name}`" for name in {**HANDLERS, **OF_PAYS_OUT}[function].names]
        yield (
            f"`{function}`",
            _rows(alone),
            _rows(together),
            ", ".join(money) or "none",
            "; ".join(_others(f"{function}Role")) or "none",
        )


def of_services() -> Iterator[Sequence[str]]:
    """Yield a line for each role of a machine or schedule: its user, and its permissions."""
    for role in sorted(roles(STAGE), key=lambda role: users(STAGE, role)):
        yield users(STAGE, role), "; ".join(_others(role))


def stolen() -> Iterator[Sequence[str]]:
    """Yield each attack that makes money, and the roles that allow it."""
    for attacks, played in ((ATTACKS, partial(ends, STAGE)), (on_payouts.ATTACKS, on_payouts.ends)):
        found = {function: played(function) for function in _FUNCTIONS}
        for attack in attacks:
            allowed = [f"`{name}`" for name in _FUNCTIONS if found[name][attack] in _GAINS]
            if allowed:
                yield _said(attack.__doc__), ", ".join(allowed)


def starters() -> Iterator[Sequence[str]]:
    """Yield a line for each function whose role starts machines, and the machines."""
    for function in _FUNCTIONS:
        if machines := sorted(one.strip("${}") for one in _resources(function, _STARTS)):
            yield f"`{function}`", ", ".join(machines)


def _said(docstring: str | None) -> str:
    text = str(docstring).partition("\n\n")[0].rstrip(".")
    return text[0].lower() + text[1:]


def _rows(actions: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{action} {', '.join(f'`{row}`' for row in rows)}" for action, rows in actions.items())


def _others(role: str) -> Iterator[str]:
    """Yield the actions for each set of resources, without the common prefix of an ARN."""
    actions = defaultdict[str, list[str]](list)
    for one in sorted(granted(STAGE, role)):
        is_common = one.action.startswith(_EVERYWHERE) or one.resource == TABLE
        if one.effect == "Allow" and not is_common:
            actions[one.action].append(_ARN.sub("", one.resource.replace("${", "").replace("}", "")))
    together = defaultdict[str, list[str]](list)
    for action, resources in actions.items():
        together[", ".join(resources)].append(f"`{action}`")
    for on, names in together.items():
        yield f"{', '.join(names)} on {on}"


def _resources(function: str, action: str) -> list[str]:
    return [one.resource for one in granted(STAGE, f"{function}Role") if one.action == action]
