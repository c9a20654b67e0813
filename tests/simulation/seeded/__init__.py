"""A deterministic simulator: a stage's real handlers, machines and store; a seed decides time and faults.

Data flow: a seed makes `chance`; `world` puts together the `hub` (time and interleaving), the `services`
(DynamoDB and Step Functions with faults), the `cloud` (functions and executions) and the `people` who act on
them; the `oracle` checks every commit by its `rules`. `python -m tests.simulation.seeded --help` runs it.
`afterwards` begins new histories at moments of a seed's history. Without chance: `scenarios`, in which
`exhaust` tries each fault, and `moments`, in which `needed` makes each call.
"""

import tests.world.environment  # noqa: F401 (before the functions)
