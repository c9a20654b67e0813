"""The errors of a step. The state machines match the class names, so never rename a class.

`settle explain` prints the first paragraph of a docstring.
"""

from collections.abc import Collection


class SettlementError(Exception):
    """A step did not commit.

    Logs and the caller get the message. It names fields, parties and the key. It names no account. The only
    amount in it is the stage's expected fee.
    """


class Refusal(SettlementError):
    """A final answer. It is never retried. Its message is always safe to report."""


class InvalidRequest(Refusal):
    """The request breaks the contract. The message names each faulty field and its expected form."""


class IdempotencyConflict(Refusal):
    """The key, or a webhook's event id, was used before with other content. Nothing was written."""

    @classmethod
    def of_key(cls, key: str) -> "IdempotencyConflict":
        return cls(f"key: {key} was claimed by a request with other content")


class AlreadyClaimed(Refusal):
    """The settlement is finished, or another execution runs it."""

    def __init__(self, key: str, status: str) -> None:
        super().__init__(f"key: {key} is {status}, and not for this execution to run")
        self.status = status


class InReview(Refusal):
    """The payment waits for a reviewer of the KYC provider or for a check. No execution waits meanwhile."""


class _PartyRefusal(Refusal):
    """A refusal by an account. `party` is the payer, the payee, the stuck party or an order's account."""

    reason = ""

    def __init__(self, party: str, reason: str = "") -> None:
        super().__init__(f"{party}: {reason or self.reason}")
        self.party = party


class AccountNotFound(_PartyRefusal):
    """The party's account does not exist."""

    reason = "there is no such account"


class CurrencyMismatch(_PartyRefusal):
    """The party's account has another currency than the settlement."""


class InsufficientFunds(_PartyRefusal):
    """The party's available balance is below the amount to take."""

    reason = "the account has too little available for this amount"


class AccountInLimbo(_PartyRefusal):
    """A settlement in LIMBO blocks the party's account, so it places no holds."""

    reason = "the account is in LIMBO and places no holds until that is resolved"


class CaseNotCounted(_PartyRefusal):
    """The account of a LIMBO case counts no open case. A person must have changed its row by hand."""

    reason = "the account counts no open case: set its limbo_cases as settle reconcile says"


class AccountFrozen(_PartyRefusal):
    """A person's order froze the party's account, so it places no holds."""

    reason = "the account is frozen and places no holds until a person unfreezes it"


class AccountClosed(_PartyRefusal):
    """A person's order closed the party's account. It takes no hold, release or deposit."""

    reason = "the account is closed"


class CapExceeded(_PartyRefusal):
    """The credit would exceed the stage's highest balance for the currency."""

    @classmethod
    def of(cls, party: str, currency: str) -> "CapExceeded":
        return cls(party, f"the account would hold more than this stage allows in {currency}")


class AccountExists(_PartyRefusal):
    """Another order has already opened the account."""

    reason = "another order has opened the account"


class AccountNotFrozen(_PartyRefusal):
    """The account to unfreeze is not frozen."""

    reason = "the account is not frozen"


class AccountNotEmpty(_PartyRefusal):
    """The account to close still has money."""

    reason = "the account still has money"


class DeadlineExceeded(Refusal):
    """The settlement's deadline passed before the step could commit."""

    def __init__(self, step: str, deadline_at: str) -> None:
        super().__init__(f"{step}: the settlement's deadline was {deadline_at}")
        self.step, self.deadline_at = step, deadline_at


class StepFenced(Refusal):
    """The settlement is finished, being reversed or at another step: its row does not admit this step."""

    def __init__(self, step: str, reason: str, status: str | None = None) -> None:
        super().__init__(f"{step}: {reason}")
        self.step, self.status = step, status

    @classmethod
    def unclaimed(cls, step: str, key: str) -> "StepFenced":
        return cls(step, f"the key {key} was never claimed")

    @classmethod
    def at(
        cls, step: str, status: str, committed: Collection[str], reversed_: Collection[str] | None = None
    ) -> "StepFenced":
        reason = f"the settlement is {status} with steps [{', '.join(sorted(committed))}] committed"
        if reversed_ is not None:
            reason += f" and [{', '.join(sorted(reversed_))}] reversed"
        return cls(step, reason, status)


class KycRejected(Refusal):
    """The KYC provider rejected the payment. The verdict is on record, so the provider is not asked again."""


class KycRequestRefused(Refusal):
    """The KYC provider refused the request itself (HTTP 4xx). No verdict will follow."""


class CheckRefused(Refusal):
    """A check of the stage refused the payment, for a reason that it declares. The refusal is on record."""


class SignatureRefused(Refusal):
    """No secret of the stage signed the webhook's call within the tolerance."""


class CallerUnknown(Refusal):
    """A person's order came without an identity proven by AWS."""


class SettlementNotFound(Refusal):
    """No request has claimed the key."""


class NotReversible(Refusal):
    """The settlement's status, an earlier part or a person's acceptance does not admit the reversal."""

    def __init__(self, reason: str, status: str | None = None) -> None:
        super().__init__(f"reverse: {reason}")
        self.status = status


class NotCancellable(Refusal):
    """It is too late to cancel the payment. Nothing was written; the message says how to proceed."""

    def __init__(self, advice: str, status: str) -> None:
        super().__init__(f"cancel: {advice}")
        self.status = status


class SequenceChanged(Refusal):
    """The settlement has another sequence than the caller saw. Nothing was written."""

    def __init__(self, seen: int | None, sequence: int) -> None:
        super().__init__(f"If-Match: the sequence is {sequence}, and not {seen}: read the outcome again")


class PartRefused(Refusal):
    """The part is not the next part, or it exceeds the rest of the release. Nothing was written."""


class EscrowMismatch(Refusal):
    """The escrow contradicts the settlement's steps. Nothing moves until a person has looked."""

    def __init__(self, step: str) -> None:
        super().__init__(f"{step}: the escrow holds something else than was held")
        self.step = step


class ResolutionRefused(Refusal):
    """The decision does not fit the settlement in LIMBO. Nothing was written."""


class ApprovalNeeded(Refusal):
    """One person ordered, but the decision needs more persons. Nothing was written."""

    def __init__(self, decision: str, persons: int) -> None:
        super().__init__(f"{decision}: needs {persons} persons: propose it")


class ProposalRefused(Refusal):
    """The proposal is missing, changed since the person saw it, or needs another person's approval."""


class PayoutNotFound(Refusal):
    """No payout has this key or bank's reference."""


class PayoutFenced(Refusal):
    """The payout's row does not admit this move: another caller has moved it, or its state forbids it."""

    def __init__(self, move: str, reason: str) -> None:
        super().__init__(f"{move}: {reason}")
        self.move = move


class PayoutRefused(Refusal):
    """The payout breaks a rule of the stage: its amount, its day's limit or its destination."""


class DestinationRefused(Refusal):
    """The payee's bank account is missing, unconfirmed, at rest or frozen, or differs from the one shown."""


class LineRefused(Refusal):
    """A line of the bank's statement contradicts its payout. No money moves until a person has looked."""


class PayRunRefused(Refusal):
    """The order does not fit the pay run: its status, its file or its persons forbid it."""


class StoreUnavailable(SettlementError):
    """DynamoDB was unreachable, throttled or in conflict. The write may or may not have happened."""


class RowDamaged(SettlementError):
    """A row was changed by hand and cannot be read. Nothing is decided on it until a person mends it."""

    @classmethod
    def of(cls, malformed: ValueError) -> "RowDamaged":
        return cls(f"{malformed}; mend the row, as the runbook of settle reconcile says")


class KycUnavailable(SettlementError):
    """The KYC provider gave no verdict: it is unreachable, slow or breaks its contract."""


class CheckUnavailable(SettlementError):
    """A check of the stage gave no valid answer in time. It is asked again until the deadline."""


class KycCircuitOpen(SettlementError):
    """The circuit around the KYC provider is open, so the provider was not asked.

    This error is not retried: an open circuit outlasts the retries. A half-open circuit raises KycUnavailable
    while its probe runs.
    """


class QueueUnavailable(SettlementError):
    """SQS gave no answer or refused a message. The function's event is delivered again."""


class StartUnavailable(SettlementError):
    """Starting or resuming an execution got no answer or was refused. Earlier writes stay.

    `is_throttled`: an account quota refused the call. The call had no effect, and a later try may succeed.
    """

    def __init__(self, message: str, *, is_throttled: bool = False) -> None:
        super().__init__(message)
        self.is_throttled = is_throttled


class PageUnavailable(SettlementError):
    """The event bus or SNS did not take a page. An order that the page announces was not carried out."""


class EventsUnavailable(SettlementError):
    """The outcome bus did not confirm an event. The stream delivers the batch again."""


class BooksUnavailable(SettlementError):
    """The books' PostgreSQL gave no definite answer or refused a statement. The input is delivered again.

    - `is_resuming`: the database wakes from a pause, and the call had no effect.
    - `is_refused`: the database answered and refused this statement. Another statement may succeed.
    """

    def __init__(self, message: str, *, is_resuming: bool = False, is_refused: bool = False) -> None:
        super().__init__(message)
        self.is_resuming, self.is_refused = is_resuming, is_refused


class JournalUnavailable(SettlementError):
    """S3 gave no definite answer about the sealed journal. The stream, or the reader, asks again."""
