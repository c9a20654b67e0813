"""One file a function; most are a state of the machines by the same name."""

import gc
import sys

# What a function imports stays for its life. To look for garbage in it is an eighth of a cold start:
# `_dependencies`, which every function imports, sets it aside and enables the collector again.
gc.disable()

# Lambda's Python reads an event of some thousand levels, and so HoldFunds refuses it by the field's name.
# The embedded AWS runs an older Python, whose JSON parser would fail at a thousand, before the function.
if sys.version_info < (3, 12):
    sys.setrecursionlimit(5_000)
