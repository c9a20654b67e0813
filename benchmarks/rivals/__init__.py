"""Ways to settle a payment: hold, verify, release, fee. Each runs in a process of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

AMOUNT, FEE = 4820, 48
OPENING = 1_000_000_000
"""Minor units of EUR: Alice pays Bob 48.20, of which 0.48 are the fee."""

Attempt = Callable[[], Any]


@dataclass(frozen=True)
class Place:
    """Where a rival works: the address of its server, and its table or database."""

    url: str
    table: str


class Rival(Protocol):
    """One way to settle, on its own table or database."""

    def attempts(self, key: str) -> Sequence[Attempt]:
        """Return the calls that settle a payment, in order; the platform repeats one that fails."""


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """A rival in the table: its title, how it is billed, and its module.

    `billed` is "machine", "durable" or "servers"; a machine enters one state for each function.
    """

    module: str
    title: str
    billed: str
    functions: int
    is_emulated: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


ENTRANTS = {
    "ours": Entrant(module="ours", title="this project", billed="machine", functions=4),
    "ours-known": Entrant(
        module="ours",
        title="this project, a payee whom the environment remembers",
        billed="machine",
        functions=4,
        options={"forgets": False},
    ),
    "bare": Entrant(module="bare", title="the same calls, bare boto3", billed="", functions=0),
    "powertools": Entrant(
        module="powertools", title="Powertools' idempotency, plain writes", billed="machine", functions=4
    ),
    "sample": Entrant(module="aws_sample", title="the shape of AWS's samples", billed="machine", functions=4),
    "durable": Entrant(
        module="durable",
        title="a durable function, plain writes",
        billed="durable",
        functions=1,
        is_emulated=True,
    ),
    "durable-ours": Entrant(
        module="durable",
        title="a durable function, this project's writes",
        billed="durable",
        functions=1,
        is_emulated=True,
        options={"ours": True},
    ),
    "dbos": Entrant(module="dbos_postgres", title="DBOS on PostgreSQL", billed="servers", functions=0),
}
"""The entrants of the interleaved rounds by their short names."""
