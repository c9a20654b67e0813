"""Checks that the project's proof finds no fault in lawful histories."""

from collections.abc import Mapping
from datetime import timedelta

from settlement.core.model.stage_config import StageConfig
from settlement.core.store.wire import from_wire
from settlement.proof import Look, Retention, Stage, reconcile
from tests.simulation.seeded.facts import POISON, demand
from tests.world.environment import NOW
from tests.world.expressions import Item
from tests.world.memory_dynamodb import Key

EVERY = 16
"""The proof runs after one commit in this many, as a proof takes as long as a commit."""


def prove(table: Mapping[Key, Item], retention: Retention) -> None:
    """Check that the proof finds no fault, except in unreadable rows."""
    rows = [from_wire(item) for (pk, _), item in table.items() if not pk.endswith(POISON)]
    findings = reconcile(rows, lambda difference: Look.DISAGREES, stage=Stage(retention=retention))
    demand(findings.conserved, "the proof finds no fault in a lawful history", *findings.faults[:3])


def retention_at(config: StageConfig, now: int) -> Retention:
    return Retention.at(NOW + timedelta(milliseconds=now), config.shortest_retention_days)
