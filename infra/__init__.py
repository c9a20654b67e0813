"""A construct for your own CDK app. It settles payments without losing or doubling money."""

from .checks import Check
from .config import dev, prod
from .saga import SettlementSaga

__all__ = ["Check", "SettlementSaga", "dev", "prod"]
