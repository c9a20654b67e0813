"""VerifyKyc's question in a killable process.

Arguments: the table's name, the trouble, and optionally `unbounded` for an exchange without a limit.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from tests.kyc.network import FUNCTION_SECONDS, Resolver, dripping_handshake, silent_ports
from tests.world.environment import NOW

assert NOW, "the environment is set"


class Context:
    def __init__(self) -> None:
        self._ends_at = time.monotonic() + FUNCTION_SECONDS

    def get_remaining_time_in_millis(self) -> int:
        return int(1000 * (self._ends_at - time.monotonic()))


@contextmanager
def trouble(name: str) -> Iterator[Resolver]:
    kind, _, count = name.partition(" ")
    resolver = Resolver()
    if kind == "lookup":
        resolver.may_answer.clear()
        yield resolver
    elif kind == "handshake":
        with dripping_handshake() as port:
            resolver.ports = [port]
            yield resolver
    else:
        with silent_ports(int(count)) as resolver.ports:
            yield resolver


def main(table_name: str, name: str, *how: str) -> None:
    quick = os.environ["KYC"].replace('"read_timeout_seconds":3', '"read_timeout_seconds":1')
    os.environ |= {"TABLE_NAME": table_name, "KYC": quick}
    from handlers.kyc import _provider as _kyc  # noqa: PLC0415 (they read the environment)
    from settlement.core.model.errors import SettlementError  # noqa: PLC0415
    from settlement.http import connection as http_connection  # noqa: PLC0415
    from settlement.kyc import shared_secrets as _secrets  # noqa: PLC0415
    from tests.kyc.environments import PAYMENT  # noqa: PLC0415

    with (
        trouble(name) as resolver,
        mock.patch.object(http_connection, "socket", resolver.socket),
        mock.patch.object(_secrets, "read", return_value={"api_key": "secret"}),
    ):
        if "unbounded" in how:
            mock.patch.object(http_connection.Cutoff, "seconds_left", 60).start()
        print("called", flush=True)
        try:
            _kyc.ask(PAYMENT, Context())
        except SettlementError as error:
            print(f"{type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
