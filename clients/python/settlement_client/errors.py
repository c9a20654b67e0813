"""The client's errors. Each says what the caller may do next."""


class SettlementClientError(Exception):
    """Base class of this client's errors."""


class Refused(SettlementClientError):
    """Nothing was written, and the same request will be refused again."""


class InvalidRequest(Refused, ValueError):
    """The message names each invalid field and its rule."""


class IdempotencyConflict(Refused):
    """The key belongs to a payment with other content. That payment is unchanged."""


class NotCancellable(Refused):
    """It is too late to cancel. The payment is unchanged. The message says what can be done."""


class PayoutRefused(Refused):
    """An account, the payee's bank account or a limit refuses the payout. The message says which.

    Once the cause is removed, the same payout can be accepted under the same key.
    """


class SequenceChanged(Refused):
    """The payment has changed since you read it, and was not cancelled. Read it and decide again."""


class Unknown(SettlementClientError):
    """The outcome is unknown: send the same request again, with the same key."""

    @classmethod
    def of(cls, key: str, cause: object) -> "Unknown":
        return cls(
            f"{key}: the outcome is unknown. Send the same request again, with the same key; never use a"
            f" new key for it. {cause}"
        )


class NotFound(SettlementClientError):
    """The stack has no claim of the key yet. A request may still be on its way."""


class Unavailable(SettlementClientError):
    """The readers' API gave no answer: ask again. Reading changes nothing."""


class MalformedAnswer(SettlementClientError, ValueError):
    """An outcome, event or journal page breaks its contract. The message names the field."""
