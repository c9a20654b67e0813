"""A deterministic simulator: a stage's real handlers, machines and store, with time and faults from a seed.

Data flow: a seed makes `chance`; `world` puts together the `hub` (time and interleaving), the `services`
(DynamoDB and Step Functions with faults), the `cloud` (functions and executions) and the `people` who act on
them; the `oracle` watches every commit. `python -m tests.simulation.seeded --help` runs it.
"""

import tests.support.environment  # noqa: F401 (before the functions)
