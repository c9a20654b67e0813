from infra.doors import CANCEL_ROUTE, START_ROUTE

ROUTES = {START_ROUTE: "AcceptSettlements", CANCEL_ROUTE: "CancelSettlement"}
CALLED = {"AcceptSettlements": "POST/settlements", "CancelSettlement": "POST/settlements/*/cancel"}
"""The calls that an API's permission names."""
