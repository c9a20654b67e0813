"""Checks with the simulated KYC provider, steered by account ids.

A real provider ignores the ids and approves.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from settle.acceptance.payments import moved_once, reason_of
from settle.acceptance.run import DEPOSIT, Run
from settle.acceptance.verdict import NotApplicable, Refuted, expect
from settle.acceptance.webhook import Event, call, foreign_secret, stage_secret
from settle.kyc import circuit as circuits
from settle.kyc.probe import probe
from settle.orders.reversal import reverse
from settle.settlements.start import Ended
from settlement.core.ledger import keys
from settlement.core.model.status import Status
from settlement.http.circuit import State

ERROR, REVIEW = "error", "review"
"""Simulated behaviours, from settle/local/kyc_behaviour.py."""

FAILING_MAX = 20
"""Maximum payments until the circuit opens. `prod` allows five failures."""

CLOSES_SECONDS_MAX = 180


def webhook(run: Run) -> str:
    """Check that the webhook refuses a foreign signature and an unknown payment."""
    unknown = Event(f"acceptance-{run.id}-unclaimed")
    secret = stage_secret(run)
    expect("HTTP status of a call signed with another secret", call(run, unknown, foreign_secret()), 401)
    expect("HTTP status of a signed call about no payment", call(run, unknown, secret), 404)
    expect("the settlement's row", run.stack.store.read(keys.settlement(unknown.key)), None)
    return "401 without the stage's secret, 404 with it, as no payment has the key; nothing is written"


def review(run: Run) -> str:
    """Hold a payment in review. Approve it twice by the webhook."""
    secret = stage_secret(run)
    payer, payee = run.account("review-a", DEPOSIT, REVIEW), run.account("review-b")
    request = run.request("review", payer, payee)
    if _settles(run.send(request)):
        raise NotApplicable("the provider approves at once, and is not the simulated one")
    with _reversed_on_failure(run, request["key"]):
        seconds = _decided(run, request["key"], secret)
    moved = moved_once(run, payer, payee)
    return f"in review, SETTLED {seconds:.1f} s after the webhook, which came twice; {moved}"


def _decided(run: Run, key: str, secret: str) -> float:
    state = run.stack.store.settlement(key)
    if state is None or not state.is_in_review:
        raise Refuted(f"{key} is not in review, but {state and state.status}")
    event = Event(key)
    expect("HTTP status of a call signed with another secret", call(run, event, foreign_secret()), 401)
    expect("the settlement after it", run.stack.store.settlement(key), state)
    began = time.monotonic()
    expect("HTTP status of the provider's decision", call(run, event, secret), 200)
    ended = run.at_rest(key)
    seconds = time.monotonic() - began
    expect("status after the decision", str(ended and ended.status), "SETTLED")
    expect("HTTP status of the same event again", call(run, event, secret), 200)
    return seconds


@contextmanager
def _reversed_on_failure(run: Run, key: str) -> Iterator[None]:
    """Reverse a payment if the block fails: a review would hold its money for days."""
    try:
        yield
    except BaseException:
        with suppress(Exception):  # the proof of the books reports it, if it stays in flight
            reverse(run.stack, key, run.reason)
        raise


def circuit(run: Run) -> str:
    """Open the circuit by failing payments, close it by probes, and pay."""
    expect("the circuit before", _state(run), State.CLOSED)
    payer, payee = run.account("circuit-a", DEPOSIT, ERROR), run.account("circuit-b")
    earlier = len(run.keys)
    failed = _open(run, payer, payee)
    good = run.parties("circuit-good")
    seconds, refused = _close(run, *good)
    for key in run.keys[earlier:]:
        run.at_rest(key)
    expect("what the payer of the failed payments has", run.balance(payer), DEPOSIT)
    expect("what their payee has", run.balance(payee), 0)
    moved_once(run, *good)
    return (
        f"OPEN after {failed} failed payments, and the next one was refused without a question;"
        f" CLOSED {seconds:.1f} s after a person's order, with {refused} more refused; all were given back"
    )


def _open(run: Run, payer: str, payee: str) -> int:
    for failed in range(FAILING_MAX):
        ended = run.send(run.request("circuit", payer, payee))
        if _settles(ended):
            raise NotApplicable("the provider does not fail when told, and is not the simulated one")
        reason = reason_of(ended)
        if reason == Status.PROCESSING:  # stalled on a busy stage: recovery ends it
            state = run.at_rest(ended.key)
            reason = state.failure["error"] if state and state.failure else reason
        if reason == "KycCircuitOpen":
            expect("the circuit", _state(run) is State.CLOSED, False)
            return failed
        expect(f"the error of failed payment {failed + 1}", reason, "KycUnavailable")
    raise Refuted(f"the circuit is {_state(run)} after {FAILING_MAX} failed payments")


def _close(run: Run, payer: str, payee: str) -> tuple[float, int]:
    refused, began = 0, time.monotonic()
    while time.monotonic() - began < CLOSES_SECONDS_MAX:
        run.waits_for = "the circuit to close"
        probe(run.stack)
        ended = run.send(run.request("circuit-good", payer, payee))
        if _settles(ended) and _state(run) is State.CLOSED:
            return time.monotonic() - began, refused
        refused += not _settles(ended)
        time.sleep(1)
    raise Refuted(f"the circuit is {_state(run)} {CLOSES_SECONDS_MAX} s after the provider answers again")


def _state(run: Run) -> State:
    return State(circuits.status(run.stack)["state"])


def _settles(ended: Ended) -> bool:
    return ended.outcome is not None and ended.outcome["status"] == "SETTLED"
