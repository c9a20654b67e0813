"""The placeholder of a reason in a printed command: it must be replaced, and is refused as it is."""

from settle.exit_codes import CommandFailed, Exit

REASON = "<why>"


def refuse_placeholder(reason: str) -> str:
    """Return a reason that a person has written. Raises CommandFailed for the placeholder."""
    if reason.strip() == REASON:
        raise CommandFailed(Exit.USAGE, f"reason: replace {REASON} with your reason; it goes on record")
    return reason
