from enum import StrEnum


class Urgency(StrEnum):
    """How soon a person must read a message. The value is its topic's id."""

    NOW = "Topic"
    """Page on call: money does not move, or evidence is in danger."""

    MORNING = "MorningTopic"
    """For the next working day: nothing is lost by then, but it needs a repair."""

    INFORMATION = "InformationTopic"
    """For information: the fault ends automatically, or a caller's own requests cause it."""
