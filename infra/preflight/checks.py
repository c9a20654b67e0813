"""All checks, in the order in which a person acts on them."""

from collections.abc import Iterator, Mapping

from . import account, definitions, stack
from .finding import Account, Check, Finding, Verdict, look

CHECKS: Mapping[str, Check] = {
    "bootstrap": account.bootstrap,
    "layer": account.layer,
    "concurrency": account.concurrency,
    "definitions": definitions.definitions,
    "stack": stack.state,
    "names": stack.names,
    "currencies": stack.exponents,
    "data": stack.data,
    "secrets": stack.secrets,
    "pages": stack.pages,
    "finance": stack.finance,
}


def findings(of: Account) -> Iterator[Finding]:
    """Yield the findings. The account's identity comes first: other checks need it."""
    identity = list(look(of, "identity", _identity))
    yield from identity
    if identity[0].verdict is Verdict.FINE:
        for name, check in CHECKS.items():
            yield from look(of, name, check)


def _identity(of: Account) -> Iterator[Finding]:
    who = of.client("sts").get_caller_identity()
    yield Finding(
        "identity", Verdict.FINE, f"account {who['Account']}, region {of.session.region_name}, {who['Arn']}"
    )
