"""One file a function; most are a state of the machines by the same name."""

import gc

# What a function imports stays for its life. To look for garbage in it is an eighth of a cold start:
# `_dependencies`, which every function imports, sets it aside and enables the collector again.
gc.disable()
