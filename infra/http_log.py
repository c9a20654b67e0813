"""The access log of the HTTP APIs."""

LOGGED = {
    "requestId": "$context.requestId",
    "routeKey": "$context.routeKey",
    "status": "$context.status",
    "userArn": "$context.identity.userArn",
    "sourceIp": "$context.identity.sourceIp",
    "error": "$context.error.message",
}
"""The access log: of a request that IAM refuses there is no other trace. It has nothing of the content."""
