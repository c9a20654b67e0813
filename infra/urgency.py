"""How soon a person must read a message: a topic for each urgency, and the alarms sorted among them."""

from enum import StrEnum


class Urgency(StrEnum):
    """An urgency, by the construct id of its topic."""

    NOW = "Topic"
    """Page the person on call: money does not move, or evidence is in danger."""

    MORNING = "MorningTopic"
    """For the next working day: nothing is lost by then, but it does not repair itself."""

    INFORMATION = "InformationTopic"
    """For information: it repairs itself, or a caller's own requests cause it."""


_MORNING = (
    *(
        "CompensationAborted",
        "SettlementStandardTimedOut",
        "SettlementStandardAborted",
        "StartSettlementsFailed",
    ),
    *("KycRequestRefused", "KycDecidedFailed", "SignatureRefused", "WebhookRefused"),
    *("AcceptSettlementsFailed", "CancelSettlementFailed", "ReadSettlementsFailed"),
    # A storm of recovery meets the quota on purpose. Payments that wait have alarms of their own.
    "StatesThrottled",
    *("SweepMerchantsFailed", "SweepBehind", "PublishEventsFailed", "EventsBehind", "EventsPutAside"),
    "EventsGivenUp",
    *("ReconcileUnproven", "ReconcileBooksFailed", "SealJournalFailed", "JournalBehind", "LimboOpen"),
    *("BooksBehind", "BooksLeftOut"),
    *("StartDeadLetters", "SweepsGivenUp", "JournalGivenUp", "KycVerdictConflict"),
)

_INFORMATION = (
    # A refused request fails its execution, too. Those that stall are counted by Recoveries.
    *("SettlementExpressFailed", "SettlementStandardFailed", "SettlementExpressTimedOut"),
    # The payments are reversed, and the circuit closes by itself.
    *("KycCircuitOpen", "TransactionConflict"),
)


def urgency_of(alarm: str) -> Urgency:
    """Return the urgency of an alarm: one that is not sorted pages at once."""
    if alarm in _MORNING:
        return Urgency.MORNING
    return Urgency.INFORMATION if alarm in _INFORMATION else Urgency.NOW
