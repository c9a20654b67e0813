"""A deterministic simulator of a stage's handlers and machines; a seed decides time and faults.

`chance` comes from the seed. `world` combines the `hub` (time and interleaving), the `services` (DynamoDB and
Step Functions with faults), the `cloud` (functions and executions) and the `people`. The `oracle` checks
every commit against the `rules`. `python -m tests.simulation.seeded --help` runs it.
`afterwards` begins histories within a seed's history. Without chance, `exhaust` tries each fault in
`scenarios`, and `needed` each call in `moments`.
"""

import tests.world.environment  # noqa: F401 (before the functions)
