"""The placeholder for a reason in a printed command. A person must replace it."""

from settle.exit_codes import CommandFailed, Exit

REASON = "<why>"


def refuse_placeholder(reason: str) -> str:
    if reason.strip() == REASON:
        raise CommandFailed(Exit.USAGE, f"reason: replace {REASON} with your reason; it goes on record")
    return reason
