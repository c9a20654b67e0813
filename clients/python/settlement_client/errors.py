"""The errors of the client: each says what its caller may do next."""


class SettlementClientError(Exception):
    """Any error of this client."""


class Refused(SettlementClientError):
    """Nothing was written, and the same request will be refused again."""


class InvalidRequest(Refused, ValueError):
    """A field is wrong; the message names each field at fault and what it should be."""


class IdempotencyConflict(Refused):
    """The key belongs to a payment with other content, which is unchanged."""


class NotCancellable(Refused):
    """It is too late to cancel the payment, which is unchanged; the message says what can be done."""


class SequenceChanged(Refused):
    """The payment has changed since it was read, and was not cancelled: read it again, and decide again."""


class Unknown(SettlementClientError):
    """The outcome is unknown: send the same request again, with the same key."""

    @classmethod
    def of(cls, key: str, cause: object) -> "Unknown":
        """Return the error of a key, with what to do and what has happened."""
        return cls(
            f"{key}: the outcome is unknown. Send the same request again, with the same key; never use a"
            f" new key for it. {cause}"
        )


class NotFound(SettlementClientError):
    """The key was never claimed, as far as the stack knows: a request may still be on its way."""


class Unavailable(SettlementClientError):
    """No answer of the readers' API: ask again. Reading changes nothing."""


class MalformedAnswer(SettlementClientError, ValueError):
    """An outcome or an event that breaks its contract; the message names the field."""
