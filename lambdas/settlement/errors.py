"""Every way in which a step can end other than well.

The class's name is the error's name in the state machines (`ErrorEquals`), so renaming one here is
a change of contract. What a caller should do follows from the base class.
"""


class SettlementError(Exception):
    """A step did not commit.

    The message may be shown to whoever sent the request, and is logged: it names fields, parties and
    the key, but no account and no amount.
    """


class Refusal(SettlementError):
    """A final answer: the same call will be refused again. Never retried, always safe to report."""


class InvalidRequest(Refusal):
    """The request breaks the contract. The message names each field and what it should be."""


class IdempotencyConflict(Refusal):
    """The key was claimed before by a request with other content. Nothing was written."""


class AccountNotFound(Refusal):
    """The payer's or the payee's account does not exist."""


class CurrencyMismatch(Refusal):
    """The account is kept in another currency than the settlement's."""


class InsufficientFunds(Refusal):
    """The account's available balance is below the amount to be taken from it."""


class AccountInLimbo(Refusal):
    """An earlier settlement of this account awaits a person's decision; until then it places no holds."""


class CapExceeded(Refusal):
    """The credit would lift the payee's balance over the stage's highest balance for the currency."""


class DeadlineExceeded(Refusal):
    """The settlement's deadline passed before the step could commit."""


class StepFenced(Refusal):
    """The settlement's row does not admit this step: it is finished, being reversed, or out of order."""


class KycRejected(Refusal):
    """The KYC provider decided against the payment. Its verdict is on record, and it is not asked again."""


class KycRequestRefused(Refusal):
    """The KYC provider does not accept the request itself (HTTP 4xx): there will be no verdict."""


class SignatureRefused(Refusal):
    """A webhook's call is not signed with a secret that the stage shares, or not just now."""


class SettlementNotFound(Refusal):
    """The call speaks of a key that nobody has claimed."""


class NotReversible(Refusal):
    """There is nothing to reverse on a person's order, or another person has accepted it as it is."""


class EscrowMismatch(Refusal):
    """The escrow does not hold what the settlement's steps say: nothing moves before a person has looked."""


class ResolutionRefused(Refusal):
    """The decision does not fit the settlement as it stands in LIMBO. Nothing was written."""


class StoreUnavailable(SettlementError):
    """DynamoDB gave no definite answer: unreachable, throttled, in conflict. The outcome may be unknown."""


class KycUnavailable(SettlementError):
    """The KYC provider gave no verdict, or was not asked: it is unreachable, slow or out of its contract."""


class StartUnavailable(SettlementError):
    """Step Functions gave no answer, or took no start. What was to be driven on stands where it was."""
