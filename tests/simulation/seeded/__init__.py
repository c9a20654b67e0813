"""A deterministic simulator of a stage's handlers and machines; a seed decides time and faults.

`python -m tests.simulation.seeded --help` runs it. docs/internals/simulator.md has its parts.
"""

import tests.world.environment  # noqa: F401 (before the functions)
