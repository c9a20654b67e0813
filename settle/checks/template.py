from pathlib import Path

from settle.exit_codes import CommandFailed, Exit
from settlement.checks.check import NAME, RESERVED

_CHECK = '''from settlement.checks.check import Answer, Approve, Check, Payment, Refuse, Tools


def ask(payment: Payment, token: str, tools: Tools) -> Answer:
    """Return Approve(), Refuse("a declared reason"), or Wait() if CHECK has wait_seconds.

    The same token must get the same answer, for ever. Raise if you cannot know it: you are asked again.
    """
    if payment.amount > 100_000:  # minor units
        return Refuse("too_much")
    return Approve({{"limit": 100_000}})


CHECK = Check(name="{name}", refusals=("too_much",), ask=ask)
'''

_WAITING = '''from settlement.checks.check import Answer, Check, Payment, Tools, Wait


def ask(payment: Payment, token: str, tools: Tools) -> Answer:
    """Wait for the callback with this token."""
    return Wait()


CHECK = Check(name="{name}", refusals=("lost", "returned"), ask=ask, wait_seconds=14 * 86_400)
'''

_WAITING_TEST = """from {module} import CHECK
from settlement.checks.check import Payment, Wait

PAYMENT = Payment(key="order-1", payer="alice", payee="bob", amount=4_820, currency="EUR", fee=0)


def test_a_payment_waits_for_the_callback() -> None:
    assert CHECK.ask(PAYMENT, "order-1:check:{name}", None) == Wait()
    assert "lost" in CHECK.refusals
"""

_TEST = """from {module} import CHECK
from settlement.checks.check import Approve, Payment, Refuse

PAYMENT = Payment(key="order-1", payer="alice", payee="bob", amount=4_820, currency="EUR", fee=0)
TOKEN = "order-1:check:{name}"


def test_a_small_payment_is_approved() -> None:
    assert isinstance(CHECK.ask(PAYMENT, TOKEN, None), Approve)


def test_a_large_payment_is_refused() -> None:
    large = Payment(key="order-1", payer="alice", payee="bob", amount=100_001, currency="EUR", fee=0)

    assert CHECK.ask(large, TOKEN, None) == Refuse("too_much")
"""


def write(name: str, folder: Path, *, waits: bool = False) -> list[Path]:
    """Write the check and its test. If `waits`, the check waits for a callback.

    Raises CommandFailed for a bad name or an existing file.
    """
    if not NAME.fullmatch(name) or name in RESERVED:
        raise CommandFailed(
            Exit.USAGE, f"name: must match ^{NAME.pattern}$, and be none of {', '.join(sorted(RESERVED))}"
        )
    module = name.replace("-", "_")
    check, test = (_WAITING, _WAITING_TEST) if waits else (_CHECK, _TEST)
    files = {folder / f"{module}.py": check, folder / f"test_{module}.py": test}
    if there := [file.name for file in files if file.exists()]:
        raise CommandFailed(Exit.CONFLICT, f"{', '.join(there)}: is there already")
    for file, text in files.items():
        file.write_text(text.format(name=name, module=module))
    return list(files)
