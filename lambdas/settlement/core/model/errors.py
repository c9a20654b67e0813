"""The errors of a step.

A class's name is the error's name in the state machines (`ErrorEquals`): renaming one is a change of
contract. The base class tells the caller what to do.
"""

from collections.abc import Collection


class SettlementError(Exception):
    """A step did not commit.

    The message goes into logs and to the caller: it names fields, parties and the key, but no account
    and no amount, except the fee that a stage expects.
    """


class Refusal(SettlementError):
    """A final answer: the same call will be refused again. Never retried, always safe to report."""


class InvalidRequest(Refusal):
    """The request breaks the contract. The message names each field and what it should be."""


class IdempotencyConflict(Refusal):
    """The key, or a webhook's event id, was used before with other content. Nothing was written."""

    @classmethod
    def of_key(cls, key: str) -> "IdempotencyConflict":
        """Return the error for a key that another request has claimed."""
        return cls(f"key: {key} was claimed by a request with other content")


class AlreadyClaimed(Refusal):
    """The settlement is not for this execution to run: it is finished, or another execution runs it."""

    def __init__(self, key: str, status: str) -> None:
        super().__init__(f"key: {key} is {status}, and not for this execution to run")
        self.status = status


class InReview(Refusal):
    """The KYC provider has left the payment to a reviewer. No execution waits for the decision."""


class _PartyRefusal(Refusal):
    """A refusal by the account of one party: the payer, the payee, or the party of a stuck reversal.

    The party of an order on an account is the account itself.
    """

    reason = ""

    def __init__(self, party: str, reason: str = "") -> None:
        super().__init__(f"{party}: {reason or self.reason}")
        self.party = party


class AccountNotFound(_PartyRefusal):
    """The party's account does not exist."""

    reason = "there is no such account"


class CurrencyMismatch(_PartyRefusal):
    """The party's account is kept in another currency than the settlement's."""


class InsufficientFunds(_PartyRefusal):
    """The party's available balance is below the amount to take from it."""

    reason = "the account has too little available for this amount"


class AccountInLimbo(_PartyRefusal):
    """The party's account is blocked: an earlier settlement of it is in LIMBO, so it places no holds."""

    reason = "the account is in LIMBO and places no holds until that is resolved"


class CaseNotCounted(_PartyRefusal):
    """The account of a case counts no open case of LIMBO: its row was changed by hand."""

    reason = "the account counts no open case: set its limbo_cases as settle reconcile says"


class AccountFrozen(_PartyRefusal):
    """The party's account is frozen by a person's order, so it places no holds."""

    reason = "the account is frozen and places no holds until a person unfreezes it"


class AccountClosed(_PartyRefusal):
    """The party's account is closed by a person's order: no hold, release or deposit touches it."""

    reason = "the account is closed"


class CapExceeded(_PartyRefusal):
    """The credit would lift the party's balance over the stage's highest balance for the currency."""

    @classmethod
    def of(cls, party: str, currency: str) -> "CapExceeded":
        """Return the error for a credit to a party's account in this currency."""
        return cls(party, f"the account would hold more than this stage allows in {currency}")


class AccountExists(_PartyRefusal):
    """An order is to open an account that another order has opened."""

    reason = "another order has opened the account"


class AccountNotFrozen(_PartyRefusal):
    """An order is to unfreeze an account that is not frozen."""

    reason = "the account is not frozen"


class AccountNotEmpty(_PartyRefusal):
    """An order is to close an account that still has money."""

    reason = "the account still has money"


class DeadlineExceeded(Refusal):
    """The settlement's deadline passed before the step could commit."""

    def __init__(self, step: str, deadline_at: str) -> None:
        super().__init__(f"{step}: the settlement's deadline was {deadline_at}")
        self.step, self.deadline_at = step, deadline_at


class StepFenced(Refusal):
    """The settlement's row does not admit this step: it is finished, being reversed, or out of order."""

    def __init__(self, step: str, reason: str, status: str | None = None) -> None:
        super().__init__(f"{step}: {reason}")
        self.step, self.status = step, status

    @classmethod
    def unclaimed(cls, step: str, key: str) -> "StepFenced":
        """Return the error for a key that no request has claimed."""
        return cls(step, f"the key {key} was never claimed")

    @classmethod
    def at(
        cls, step: str, status: str, committed: Collection[str], reversed_: Collection[str] | None = None
    ) -> "StepFenced":
        """Return the error for a settlement in this status, with these steps committed and reversed."""
        reason = f"the settlement is {status} with steps [{', '.join(sorted(committed))}] committed"
        if reversed_ is not None:
            reason += f" and [{', '.join(sorted(reversed_))}] reversed"
        return cls(step, reason, status)


class KycRejected(Refusal):
    """The KYC provider decided against the payment. Its verdict is on record, and it is not asked again."""


class KycRequestRefused(Refusal):
    """The KYC provider refuses the request itself (HTTP 4xx): there will be no verdict."""


class SignatureRefused(Refusal):
    """No secret of the stage has signed a webhook's call within the tolerance."""


class CallerUnknown(Refusal):
    """A person's order came without an identity that AWS has proven."""


class SettlementNotFound(Refusal):
    """No request has claimed the key."""


class NotReversible(Refusal):
    """A person's order finds nothing to reverse, or a settlement that another person has accepted."""

    def __init__(self, reason: str, status: str | None = None) -> None:
        super().__init__(f"reverse: {reason}")
        self.status = status


class NotCancellable(Refusal):
    """A starter cancels a payment that is past it. Nothing was written; the message says what can be done."""

    def __init__(self, advice: str, status: str) -> None:
        super().__init__(f"cancel: {advice}")
        self.status = status


class SequenceChanged(Refusal):
    """The settlement has another sequence than its caller has seen. Nothing was written."""

    def __init__(self, seen: int | None, sequence: int) -> None:
        super().__init__(f"If-Match: the sequence is {sequence}, and not {seen}: read the outcome again")


class PartRefused(Refusal):
    """The part is not the next one, or more than is left of what was released. Nothing was written."""


class EscrowMismatch(Refusal):
    """The escrow does not hold what the settlement's steps say: nothing moves before a person has looked."""

    def __init__(self, step: str) -> None:
        super().__init__(f"{step}: the escrow holds something else than was held")
        self.step = step


class ResolutionRefused(Refusal):
    """The decision does not fit the settlement in LIMBO. Nothing was written."""


class ApprovalNeeded(Refusal):
    """The stage wants more persons for this decision than the one who orders it. Nothing was written."""

    def __init__(self, decision: str, persons: int) -> None:
        super().__init__(f"{decision}: needs {persons} persons: propose it")


class ProposalRefused(Refusal):
    """The proposal is not there, is not the one that was seen, or is not this person's to approve."""


class StoreUnavailable(SettlementError):
    """DynamoDB gave no definite answer: unreachable, throttled, in conflict. The outcome may be unknown."""


class RowDamaged(SettlementError):
    """A row was changed by hand and cannot be read. Nothing is decided on it until a person has mended it."""

    @classmethod
    def of(cls, malformed: ValueError) -> "RowDamaged":
        """Return the error for a row, of which the message names it and what is wrong."""
        return cls(f"{malformed}; mend the row, as the runbook of settle reconcile says")


class KycUnavailable(SettlementError):
    """The KYC provider gave no verdict: it is unreachable, slow or breaks its contract."""


class KycCircuitOpen(SettlementError):
    """The circuit around the KYC provider is open, so the provider was not asked.

    The machine does not retry it: an open circuit outlasts the retries. While a probe is under way the
    circuit is half open, and the error is KycUnavailable.
    """


class QueueUnavailable(SettlementError):
    """SQS gave no answer, or refused a message: what a function was called with comes again."""


class StartUnavailable(SettlementError):
    """An execution, or its resumption, got no answer or was refused. The settlement is as it was.

    `is_throttled` if a quota of the account refused it: then it has had no effect, and a later one may.
    `is_taken` if there is an execution of its name: it need not be this one.
    """

    def __init__(self, message: str, *, is_throttled: bool = False, is_taken: bool = False) -> None:
        super().__init__(message)
        self.is_throttled, self.is_taken = is_throttled, is_taken


class PageUnavailable(SettlementError):
    """The event bus, or SNS, has not taken a page. An order that it announces was not carried out."""


class EventsUnavailable(SettlementError):
    """The outcome bus has not taken an event, or may not have. The stream delivers the batch again."""


class BooksUnavailable(SettlementError):
    """The books' PostgreSQL gave no definite answer, or refused a statement. What was told comes again.

    `is_resuming` while it comes back from a pause: the call has had no effect. `is_refused` if it answered,
    and would not run this statement: another one may be fine.
    """

    def __init__(self, message: str, *, is_resuming: bool = False, is_refused: bool = False) -> None:
        super().__init__(message)
        self.is_resuming, self.is_refused = is_resuming, is_refused


class JournalUnavailable(SettlementError):
    """S3 gave no definite answer about the sealed journal. The stream, or the reader, asks again."""
