"""One file per Lambda function."""

import gc
import sys

# Imported objects are never garbage, and collecting among them takes an eighth of a cold start.
# `_dependencies`, which every function imports, freezes them and enables the collector again.
gc.disable()

# Lambda's Python parses thousands of nested levels, so HoldFunds can refuse such an event by its field.
# The embedded AWS runs an older Python, whose JSON parser would fail at a thousand, before the function.
if sys.version_info < (3, 12):
    sys.setrecursionlimit(5_000)
