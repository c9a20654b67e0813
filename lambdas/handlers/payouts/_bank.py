"""The stage's bank, over files or HTTP. Over HTTP, each thread has a client behind the circuit."""

import os
import threading

from handlers import _dependencies
from handlers.payouts import _payouts
from settlement.core.ledger import keys
from settlement.core.model.errors import KycUnavailable, StoreUnavailable
from settlement.core.telemetry import count, gauge, logger
from settlement.http.circuit import State, Thresholds
from settlement.http.exchange import Exchanger
from settlement.http.shared_circuit import SharedCircuit, from_row
from settlement.kyc import shared_secrets
from settlement.payouts import bucket
from settlement.payouts.guarded import CIRCUIT, Guarded
from settlement.payouts.over_http import OverHttp
from settlement.payouts.port import Bank, Declared

SECRET_CACHE_SECONDS = 60
"""How long a replaced token stays in use, while the bank still accepts it."""

_own = threading.local()


def bank() -> Bank:
    """The thread's bank. Raises StoreUnavailable if the token is unreadable: nothing was sent then."""
    if files := _payouts.config().get("files"):
        return bucket.over_files(files)
    token = _token()
    if not hasattr(_own, "bank"):
        _own.over_http = _over_http(token)
        _own.bank = Guarded(_own.over_http, _circuit())
    _own.over_http.token = token
    found: Bank = _own.bank
    return found


def measure() -> None:
    """Publish the circuit's state in each run, because the publication of a change may be lost.

    A bank that takes files has no circuit.
    """
    if "breaker" not in _payouts.config():
        return
    row = _dependencies.store.read(keys.circuit(CIRCUIT.name)) or {}
    gauge("BankCircuit", int(from_row(row).state is not State.CLOSED))


def _circuit() -> SharedCircuit:
    thresholds = Thresholds(**_payouts.config()["breaker"])
    return SharedCircuit(CIRCUIT, _dependencies.dynamodb, os.environ["TABLE_NAME"], thresholds, _changed)


def _over_http(token: str) -> OverHttp:
    """Build the client of the bank's API.

    It takes all currencies of the stage, because payouts are followed even if limits drop their currency.
    """
    told = _payouts.config()["bank"]
    exchanger = Exchanger(told["url"], told["connect_timeout_seconds"], told["read_timeout_seconds"])
    declared = Declared(
        name=told["name"],
        window_seconds=told["window_seconds"],
        refusals=frozenset(told["refusals"]),
    )
    return OverHttp(exchanger, declared, _dependencies.config.currencies, token)


def _changed(state: State) -> None:
    logger.warning("circuit", circuit=CIRCUIT.name, state=state.value)


def _token() -> str:
    secret_id = _payouts.config()["secret_id"]
    try:
        secret = shared_secrets.read(
            secret_id, cache_seconds=SECRET_CACHE_SECONDS, metric="BankSecretUnreadable"
        )
    except KycUnavailable as unreadable:
        raise StoreUnavailable(f"bank: {unreadable}") from None
    token = secret.get("api_key")
    if not (isinstance(token, str) and token and token.isascii() and token.isprintable()):
        count("BankSecretUnreadable")
        raise StoreUnavailable("bank: secret: api_key must be a string of printable ASCII")
    return token
