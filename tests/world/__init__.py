"""Helpers shared by all tests, mapped in `tests/README.md`.

Importing this package sets the environment that the functions read at import.
"""

from tests.world import environment

__all__ = ["environment"]
