"""A stage for tests of the acceptance checks, with one fake client in place of AWS."""

from types import SimpleNamespace
from typing import Any, cast

from settle.stack import Stack
from settlement.core.model.command import command


def stage(client: Any = None, **more: Any) -> Stack:
    config = SimpleNamespace(
        currencies={"EUR": 2}, party_names="optional", scheduled_fee=lambda amount: amount // 100
    )
    found: dict[str, Any] = {
        **{"name": "settlement-test", "cloudformation": "settlement-test", "endpoint_url": None},
        **{"outputs": {}, "config": config, "store": None, "session": None},
        "client": lambda service, attempts=5: client,
        "command": lambda verb, *words, **options: command(verb, *words, **options, stack="settlement-test"),
    }
    return cast(Stack, SimpleNamespace(**found | more))
