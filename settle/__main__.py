"""Runs `settle`. Ctrl-C ends it without a traceback, even while its modules load."""

import sys

INTERRUPTED = 130
"""Exit code after Ctrl-C, as in shells and Typer."""


def main() -> None:
    try:
        from settle import cli

        cli.main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
