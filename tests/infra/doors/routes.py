from infra.doors import CANCEL_ROUTE, START_ROUTE

ROUTES = {START_ROUTE: "AcceptSettlements", CANCEL_ROUTE: "CancelSettlement"}
CALLED = {"AcceptSettlements": "POST/settlements", "CancelSettlement": "POST/settlements/*/cancel"}
"""Method and path in the API's permission to invoke each function."""
