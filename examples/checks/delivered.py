"""Release when delivered: the payment waits until the carrier's signed callback."""

from settlement.checks.check import Answer, Check, Payment, Tools, Wait


def ask(payment: Payment, token: str, tools: Tools) -> Answer:
    return Wait()


CHECK = Check(name="delivered", refusals=("lost", "returned"), ask=ask, wait_seconds=14 * 86_400)
