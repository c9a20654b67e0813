"""Settlements without lost or doubled money, as a construct for your own CDK app."""

from .checks import Check
from .config import dev, prod
from .saga import SettlementSaga

__all__ = ["Check", "SettlementSaga", "dev", "prod"]
