from enum import StrEnum


class Urgency(StrEnum):
    """How soon a person must read a message. The value is its topic's id."""

    NOW = "Topic"
    """Page on call. Money does not move, or evidence is in danger."""

    MORNING = "MorningTopic"
    """For the next working day. Nothing is lost by then, but it needs a repair."""

    INFORMATION = "InformationTopic"
    """For information. The fault ends automatically, or a caller's own requests cause it."""
