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
