"""The one set of helpers of all tests. `tests/README.md` tells which of them a test needs.

Importing it sets the functions' environment, which they read when they are imported.
"""

from tests.world import environment

__all__ = ["environment"]
