from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from settlement.core.model.errors import CallerUnknown

_FEDERATED = ":federated-user/"
"""Marks a session of GetFederationToken. Its IAM user chooses the session's name freely."""


def person_of(arn: str) -> str:
    """An ARN's role session name or IAM user name, in lower case.

    IAM user names are case-insensitive.
    """
    return arn.rpartition("/")[2].casefold()


@dataclass(frozen=True, kw_only=True)
class Caller:
    """A caller whose signature API Gateway has checked.

    - `by`: the caller's ARN.
    - `user_id`: the unique id of an IAM user, or of a role with the session's name.
    - `request_id`: also in API Gateway's access log.
    """

    by: str
    user_id: str
    request_id: str
    source_ip: str

    @property
    def person(self) -> str:
        return person_of(self.by)

    @property
    def proof(self) -> dict[str, str]:
        return {"user_id": self.user_id, "request_id": self.request_id, "source_ip": self.source_ip}


def caller_of(context: Mapping[str, Any]) -> Caller:
    """The caller of a `requestContext` (payload format 2.0). Raises CallerUnknown."""
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
