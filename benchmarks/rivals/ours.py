"""The functions of this project, called in the order of the settlement machine."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from benchmarks.rivals import OPENING, Attempt, Place
from benchmarks.rivals.context import Context
from benchmarks.rivals.plain import payment

_MACHINE = "arn:aws:states:us-east-1:123456789012:execution:SettlementStandard"

Function = Callable[[str, Any], Any]
"""A function of the machine, called with a settlement's key and the state that the first one returned."""


class Ours:
    """The four functions, with a provider that approves at once.

    With `forgets`, the environment forgets the payee before each settlement: a new payee costs more.
    """

    def __init__(self, place: Place, *, forgets: bool = True) -> None:
        from tests.world import environment  # noqa: F401, PLC0415  # the functions read it at import

        os.environ |= {"TABLE_NAME": place.table, "AWS_ENDPOINT_URL_DYNAMODB": place.url}
        names = ("core.hold_funds", "kyc.verify_kyc", "core.release_funds", "core.collect_fee")
        self._handlers = [import_module(f"handlers.{name}").handler for name in names]
        approved = import_module("tests.world.provider").APPROVED
        vars(import_module("handlers.kyc._provider"))["ask"] = lambda settlement, context: approved
        self._forgets = forgets
        self._remembered = import_module("handlers.core._payee")._remembered
        store = import_module("handlers._dependencies").store
        self._ledger = import_module("tests.world.ledger").Ledger(store.client, place.table, store)
        self._ledger.open("alice", OPENING)
        self._ledger.open("bob", 0)

    def attempts(self, key: str) -> Sequence[Attempt]:
        """Return a call of each function, with the machine's input."""
        state: dict[str, Any] = {}

        def call(function: Function) -> None:
            state.update(function(key, state) or {})

        return [partial(call, function) for function in self.functions]

    @property
    def functions(self) -> Sequence[Function]:
        """The functions in order. The first one returns the state that the others get."""
        return [self._hold, *(partial(_step, handler) for handler in self._handlers[1:])]

    def _hold(self, key: str, state: Any) -> Any:
        request = {**payment(key), "amount": "48.20", "fee": "0.48"}
        event = {"settlement": request, "execution": key, "execution_arn": f"{_MACHINE}:{key}"}
        if self._forgets:
            self._remembered.clear()
        return self._handlers[0](event, Context())


def _step(handler: Any, key: str, state: Any) -> None:
    handler({**state, "execution": key}, Context())


enter = Ours
