"""The parts that a function gets from its deployment."""

import json
import os
from datetime import UTC, timedelta

from handlers import _dependencies
from settlement.model.stage_config import StageConfig
from settlement.policy.pager import PagerConfig


def test_the_clock_knows_its_zone() -> None:
    assert _dependencies.now().tzinfo is UTC
    assert _dependencies.now().utcoffset() == timedelta(0)


def test_the_stage_config_is_the_deployments(config: StageConfig) -> None:
    assert _dependencies.config == config


def test_the_pager_config_is_the_deployments() -> None:
    assert _dependencies.pager == PagerConfig(
        runbook="docs/runbooks/limbo.md",
        show_command="settle limbo show {key}",
        again_after_seconds=1800,
    )
    assert json.loads(os.environ["PAGER"]) == vars(_dependencies.pager)
