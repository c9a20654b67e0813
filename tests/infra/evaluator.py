"""Evaluates a role's policy as IAM does. Features that this stack does not use raise ValueError.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic_policy-eval-basics.html
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from tests.infra.stack import of_role
from tests.infra.writes import names_in

Values = tuple[str, ...]
ENCLOSING, LEADING, ATTRIBUTES = (
    f"dynamodb:{name}" for name in ("EnclosingOperation", "LeadingKeys", "Attributes")
)
WRITES = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem"}
_ONE: Mapping[str, Callable[[str, str], bool]] = {
    "StringEquals": lambda value, wanted: value == wanted,
    "StringLike": fnmatchcase,
    "Bool": lambda value, wanted: value.lower() == wanted.lower(),
}


@dataclass(frozen=True)
class Request:
    """An action on a resource, with the service's condition keys."""

    action: str
    resource: str
    context: Mapping[str, Values] = field(default_factory=dict)


def policy(stage: str, function: str) -> list[dict[str, Any]]:
    return of_role(stage, f"{function}Role")


def allows(statements: Iterable[Mapping[str, Any]], request: Request) -> bool:
    effects = {one["Effect"] for one in statements if applies(one, request)}
    return effects == {"Allow"}


def applies(statement: Mapping[str, Any], request: Request) -> bool:
    if not statement.keys() <= {"Sid", "Effect", "Action", "Resource", "Condition"}:
        raise ValueError(f"the evaluator does not know all of {sorted(statement)}")
    return (
        any(fnmatchcase(request.action, pattern) for pattern in listed(statement["Action"]))
        and any(fnmatchcase(request.resource, pattern) for pattern in listed(statement["Resource"]))
        and all(
            _holds(operator, request.context.get(key, ()), listed(wanted))
            for operator, keys in statement.get("Condition", {}).items()
            for key, wanted in keys.items()
        )
    )


def _holds(operator: str, values: Values, wanted: Sequence[str]) -> bool:
    """Evaluate one operator. Without values ForAnyValue is false, ForAllValues true."""
    quantifier, _, name = operator.rpartition(":")
    matches = [any(_ONE[name](value, one) for one in wanted) for value in values]
    if quantifier == "ForAllValues":
        return all(matches)
    if quantifier not in ("", "ForAnyValue"):
        raise ValueError(f"the evaluator does not know {quantifier}")
    return any(matches)


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def requests(table: str, operation: str, parameters: Mapping[str, Any]) -> Iterator[Request]:
    """Yield IAM's requests for a DynamoDB call.

    For a transaction: each item alone, and for each action all its leading keys and attributes together. AWS
    documents neither, so a role must allow both.
    """
    if operation == "Scan":  # it has no leading keys
        yield Request("dynamodb:Scan", table, {})
        return
    if operation == "BatchGetItem":
        (asked,) = parameters["RequestItems"].values()
        leading = tuple(key["pk"]["S"] for key in asked["Keys"])
        yield Request("dynamodb:BatchGetItem", table, {LEADING: leading})
        return
    if operation != "TransactWriteItems":
        yield Request(f"dynamodb:{operation}", table, context(parameters))
        return
    together: dict[str, dict[str, Values]] = {}
    for item in parameters["TransactItems"]:
        for kind, write in item.items():
            alone = context(write) | {ENCLOSING: ("TransactWriteItems",)}
            yield Request(f"dynamodb:{WRITES[kind]}", table, alone)
            all_of_them = together.setdefault(WRITES[kind], {})
            for key, values in alone.items():
                all_of_them[key] = tuple(dict.fromkeys((*all_of_them.get(key, ()), *values)))
    for action, each in together.items():
        yield Request(f"dynamodb:{action}", table, each)


def context(parameters: Mapping[str, Any]) -> dict[str, Values]:
    """Return IAM's condition values of a one-item call or a query: leading keys and attributes."""
    row = parameters.get("Item") or parameters.get("Key")
    given = parameters.get("ExpressionAttributeValues", {})
    leading = row["pk"] if row else next(iter(given.values()))
    attributes = dict.fromkeys(row or ())
    aliases = parameters.get("ExpressionAttributeNames", {})
    for name in ("ConditionExpression", "UpdateExpression"):
        attributes |= dict.fromkeys(sorted(names_in(parameters.get(name, ""), aliases)))
    return {LEADING: (leading["S"],), ATTRIBUTES: tuple(attributes)}
