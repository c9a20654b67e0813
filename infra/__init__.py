"""A construct for your own CDK app. It settles payments without losing or doubling money."""

from .checks import Check
from .config import dev, prod
from .payouts_config import Debtor, PayoutSettings
from .payruns import PayRunSettings
from .saga import SettlementSaga

__all__ = ["Check", "Debtor", "PayRunSettings", "PayoutSettings", "SettlementSaga", "dev", "prod"]
