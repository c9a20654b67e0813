"""The bank behind its circuit: one for each thread, as a connection serves one."""

import json
import os
import threading
from functools import cache
from typing import Any

from settlement.http.circuit import State, Thresholds
from settlement.http.shared_circuit import SharedCircuit
from settlement.payouts.guarded import CIRCUIT, Guarded

from handlers import _dependencies
from settlement.core.model.errors import KycUnavailable, StoreUnavailable
from settlement.core.telemetry import count, gauge, logger
from settlement.http.exchange import Exchanger
from settlement.kyc import shared_secrets
from settlement.payouts.over_http import OverHttp
from settlement.payouts.port import Bank, Declared

SECRET_CACHE_SECONDS = 60
"""How long a replaced token stays in use, while the bank still accepts it."""

_own = threading.local()


@cache
def _config() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(os.environ["PAYOUTS"])
    return found


def bank() -> Bank:
    """Raises StoreUnavailable if the token is unreadable: nothing was sent then."""
    token = _token()
    if not hasattr(_own, "bank"):
        _own.over_http = _over_http(token)
        _own.bank = Guarded(_own.over_http, _circuit())
    _own.over_http.token = token
    found: Bank = _own.bank
    return found


def _over_http(token: str) -> OverHttp:
    told = _config()["bank"]
    exchanger = Exchanger(told["url"], told["connect_timeout_seconds"], told["read_timeout_seconds"])
    declared = Declared(
        name=told["name"],
        window_seconds=told["window_seconds"],
        refusals=frozenset(told["refusals"]),
    )
    currencies = {code: _dependencies.config.currencies[code] for code in _config()["limits"]["payout"]}
    return OverHttp(exchanger, declared, currencies, token)


def _circuit() -> SharedCircuit:
    thresholds = Thresholds(**_config()["breaker"])
    return SharedCircuit(_dependencies.dynamodb, os.environ["TABLE_NAME"], thresholds, _changed, name=CIRCUIT)


def _changed(state: State) -> None:
    gauge("BankCircuit", int(state is not State.CLOSED))
    logger.warning("circuit", circuit=CIRCUIT, state=state.value)


def _token() -> str:
    try:
        secret = shared_secrets.read(_config()["secret_id"], cache_seconds=SECRET_CACHE_SECONDS)
        token = secret.get("api_key")
        if not (isinstance(token, str) and token and token.isascii() and token.isprintable()):
            raise KycUnavailable("secret: api_key must be a string of printable ASCII")
    except KycUnavailable as unusable:
        count("BankSecretUnreadable")
        raise StoreUnavailable(f"bank: {unusable}") from None
    return token
