"""A person's order to the compensating machine."""

import json
import secrets
from collections.abc import Callable
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.stack import Stack
from settlement.model import executions
from settlement.model.errors import InvalidRequest
from settlement.model.state import SettlementState


def start_compensation(stack: Stack, state: SettlementState, name: str, order: dict[str, Any]) -> None:
    """Start the compensating machine with a person's order, named "reverse" or "resolve".

    The execution gets a new name each time: only the row decides whether the order was given before.
    """
    stack.client("stepfunctions").start_execution(
        stateMachineArn=stack.outputs["CompensationArn"],
        name=executions.ordered(state.key, name, secrets.token_hex(3)),
        input=json.dumps({"settlement": state.settlement.to_wire(stack.config), **order}),
    )


def check_order(parse: Callable[[object], object], order: dict[str, Any]) -> None:
    """Refuse a malformed order before anything is looked up or sent."""
    try:
        parse(order | {"by": "not looked up yet"})
    except InvalidRequest as refusal:
        raise CommandFailed(Exit.USAGE, str(refusal)) from refusal


def caller(stack: Stack) -> str:
    """Return the AWS identity of the person who gives the order."""
    arn: str = stack.client("sts").get_caller_identity()["Arn"]
    return arn
