"""Screens both names with OpenSanctions, or your own yente server.

The payment of a listed party waits for a person, whose tool sends the callback.
Source: https://www.opensanctions.org/docs/api/matching/.
"""

import json
from typing import Any

from settlement.checks.check import Answer, Approve, Check, Payment, Refuse, Reply, Tools, Wait

PARTIES = ("payer", "payee")
URL = "https://api.opensanctions.org/match/sanctions"


def ask(payment: Payment, token: str, tools: Tools) -> Answer:
    names = dict(zip(PARTIES, (payment.payer_name, payment.payee_name), strict=True))
    if not all(names.values()):
        return Refuse("no_name")  # an account id matches no list, and would be approved
    reply = tools.http(
        "POST",
        URL,
        headers={
            "authorization": f"ApiKey {tools.secret('api_key')}",
            "content-type": "application/json",
        },
        body=json.dumps({"queries": {party: _query(str(name)) for party, name in names.items()}}).encode(),
    )
    if reply.status != 200:
        raise OSError(f"HTTP {reply.status}")
    responses = json.loads(reply.body)["responses"]
    found = [one for party in names for one in responses[party]["results"] if one["match"] is not False]
    return Wait() if found else Approve({"matches": 0})


def _query(name: str) -> dict[str, Any]:
    """Return the query for a name. `LegalEntity` covers persons and companies."""
    return {"schema": "LegalEntity", "properties": {"name": [name]}}


def _simulated(method: str, url: str, headers: Any, body: bytes) -> Reply:
    """Stand in for the service in `settle check prove`: Mallory is listed."""
    queries = json.loads(body)["queries"]
    listed = {"results": [{"id": "Q1", "match": True}]}
    content: dict[str, Any] = {
        party: listed if "mallory" in query["properties"]["name"] else {"results": []}
        for party, query in queries.items()
    }
    return Reply(200, json.dumps({"responses": content}).encode())


SIMULATED = _simulated
CHECK = Check(name="opensanctions", refusals=("listed", "no_name"), ask=ask, wait_seconds=7 * 86_400)
