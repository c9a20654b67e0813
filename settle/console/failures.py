"""Failures as pages. A page has the next step, and never a traceback."""

from dataclasses import dataclass

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    TokenRetrievalError,
)
from starlette.exceptions import HTTPException

from settle.exit_codes import CommandFailed, Exit, message_of
from settle.order import DoorForbidden, DoorShut
from settlement.core.model.errors import SettlementError
from settlement.core.model.stored import MalformedRow


@dataclass(frozen=True)
class Failure:
    status: int
    title: str
    what: str
    next: str


FAULT = 500

_LOOK = "Look at the settlement before you repeat an order: the same order twice is one."
_COMMANDS = {
    Exit.FAILED: (502, "Not carried out, or not known to be", _LOOK),
    Exit.USAGE: (400, "Something in it is wrong", "Go back, and correct what the message names."),
    Exit.NOT_FOUND: (404, "There is none", "Check the spelling, and the stack in the line at the top."),
    Exit.REFUSED: (422, "The account refuses it", "Look at the account, then decide again."),
    Exit.CONFLICT: (409, "It does not fit what is there", "Look at the settlement as it is now."),
    Exit.LIMBO: (409, "It is stuck again", "Look at the new case of the settlement."),
    Exit.IN_FLIGHT: (409, "It is still in flight", "Look at the settlement as it is now."),
}
_PERMISSIONS = "`settle permissions` shows what each kind of people may; ask for the policy that you lack."
_LOGIN = "Log in to AWS again in the terminal of the console; if that does not help, start it anew."
_GONE = (
    "The table is being restored, or the stack was removed. Nothing was written."
    " See that the stack is there, then reload this page."
)
_BY_HAND = "It was changed by hand: `settle reconcile` tells what else is wrong with it."
_DENIED = frozenset(
    {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "KMSAccessDeniedException"}
)
_EXPIRED = frozenset(
    {
        *("ExpiredToken", "ExpiredTokenException", "RequestExpired", "InvalidClientTokenId"),
        *("UnrecognizedClientException", "SignatureDoesNotMatch"),
    }
)
_ABSENT = frozenset({"ResourceNotFoundException", "ResourceInUseException", "TableNotFoundException"})


_KINDS: tuple[tuple[tuple[type[Exception], ...], int, str, str], ...] = (
    ((DoorForbidden,), 403, "Your AWS identity may not give this order", _PERMISSIONS),
    ((DoorShut,), 502, "The door answers no order now", _LOOK),
    (
        (NoCredentialsError, CredentialRetrievalError, TokenRetrievalError),
        *(502, "There are no AWS credentials", _LOGIN),
    ),
    ((BotoCoreError, OSError), 502, "AWS does not answer", "Reload this page when the network is back."),
    ((MalformedRow,), 502, "A row cannot be read", _BY_HAND),
    ((SettlementError,), 502, "It was refused", _LOOK),
)
"""Pages of failures, by the failure's class. The first match wins."""


def told(failed: Exception) -> Failure:
    for classes, status, title, then in _KINDS:
        if isinstance(failed, classes):
            return Failure(status, title, message_of(failed), then)
    if isinstance(failed, CommandFailed):
        status, title, then = _COMMANDS[failed.code]
        return Failure(status, title, str(failed), then)
    if isinstance(failed, HTTPException):
        return Failure(failed.status_code, "There is no such page", failed.detail, "Begin at the queue.")
    if isinstance(failed, ClientError):
        return _of_aws(failed)
    return Failure(
        FAULT, "A fault of the console", type(failed).__name__, f"{_LOOK} The command does the same."
    )


def _of_aws(failed: ClientError) -> Failure:
    code = failed.response.get("Error", {}).get("Code", "")
    if code in _DENIED:
        return Failure(403, "Your AWS identity may not do this", str(failed), _PERMISSIONS)
    if code in _EXPIRED:
        return Failure(502, "Your AWS credentials are not good any more", str(failed), _LOGIN)
    if code in _ABSENT:
        return Failure(502, "The table of the stack is not there", str(failed), _GONE)
    return Failure(502, "AWS refuses it", str(failed), "Reload this page; if it stays so, see the message.")
