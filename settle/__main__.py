"""The program `settle`: Ctrl-C ends it without a traceback, also while its modules are loaded."""

import sys

INTERRUPTED = 130
"""The exit code of a program that Ctrl-C ended, as shells have it; Typer ends a command with the same."""


def main() -> None:
    """Load the command and run it."""
    try:
        from settle import cli

        cli.main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
