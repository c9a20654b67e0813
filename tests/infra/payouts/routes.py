from infra.payouts import PAY_ROUTE, READ_ROUTE
from tests.infra.stack import PAYING

STAGES = PAYING
ROUTES = dict.fromkeys((PAY_ROUTE, READ_ROUTE), "ServePayouts")
CALLED = {"ServePayouts": "*/payouts*"}
"""Method and path in the API's permission to invoke each function."""
