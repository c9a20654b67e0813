"""The person who gives an order, as AWS has proven it: from the event of an IAM-authorised API."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from settlement.core.model.errors import CallerUnknown

_FEDERATED = ":federated-user/"
"""In the ARN of a session of GetFederationToken, which an IAM user names as it likes: no policy binds it."""


def person_of(arn: str) -> str:
    """Return the person of an ARN, in any role: the name of a role's session, or of an IAM user.

    IAM does not tell names of users apart by their case, so that no two persons differ by it alone.
    """
    return arn.rpartition("/")[2].casefold()


@dataclass(frozen=True, kw_only=True)
class Caller:
    """A caller whose signature API Gateway has checked, and the request that it is on.

    `by` is the ARN of the identity. `user_id` is IAM's unique id of a user, or that of a role with the
    session's name. `request_id` is in API Gateway's access log; `source_ip` is where the request came from.
    """

    by: str
    user_id: str
    request_id: str
    source_ip: str

    @property
    def person(self) -> str:
        """The person, in any role."""
        return person_of(self.by)

    @property
    def proof(self) -> dict[str, str]:
        """What an order has on record beside the ARN."""
        return {"user_id": self.user_id, "request_id": self.request_id, "source_ip": self.source_ip}


def caller_of(context: Mapping[str, Any]) -> Caller:
    """Return the caller in a `requestContext` (payload format 2.0). Raises CallerUnknown."""
    try:
        identity = context["authorizer"]["iam"]
        found = {
            "by": identity["userArn"],
            "user_id": identity["userId"],
            "request_id": context["requestId"],
            "source_ip": context["http"]["sourceIp"],
        }
    except (KeyError, TypeError):
        found = {}
    if not (found and all(isinstance(value, str) and value for value in found.values())):
        raise CallerUnknown("identity: the call has none that AWS has proven")
    if _FEDERATED in found["by"]:
        raise CallerUnknown("identity: a federated user has a name of the caller's choice; use a role")
    if not found["by"].isascii():  # IAM's names are
        raise CallerUnknown("identity: its ARN must be ASCII")
    return Caller(**found)
