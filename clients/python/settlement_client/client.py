"""The client of one stack: it starts settlements, and reads them."""

from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from typing import Any

import boto3

from settlement_client import cancelling, posting, starting
from settlement_client.journal import JournalPage, pages
from settlement_client.outcome import Outcome
from settlement_client.reading import Readers, Reading
from settlement_client.request import Request


class Client:
    """A stack by its addresses; each method needs its own one.

    A thread has its own client, as it has its own session.

    `session` has the credentials and the region; by default they are those of the environment.
    """

    def __init__(
        self,
        *,
        express_arn: str | None = None,
        standard_arn: str | None = None,
        queue_url: str | None = None,
        api_url: str | None = None,
        session: boto3.Session | None = None,
    ) -> None:
        self._addresses = {
            "express_arn": express_arn,
            "standard_arn": standard_arn,
            "queue_url": queue_url,
            "api_url": api_url,
        }
        self._session = session or boto3.Session()

    @classmethod
    def of_stack(cls, name: str, session: boto3.Session | None = None) -> "Client":
        """Return the client of a stack, by its outputs in CloudFormation.

        `name` is `settlement-prod`, or `STACK/SAGA` for a saga in an app of one's own.
        """
        session = session or boto3.Session()
        of_stack, _, saga = name.partition("/")
        (stack,) = session.client("cloudformation").describe_stacks(StackName=of_stack)["Stacks"]
        named = {one["OutputKey"]: one["OutputValue"] for one in stack.get("Outputs", [])}
        outputs = {key.removeprefix(saga): value for key, value in named.items() if key.startswith(saga)}
        return cls(
            express_arn=outputs.get("SettlementExpressArn"),
            standard_arn=outputs.get("SettlementStandardArn"),
            queue_url=outputs.get("StartQueueUrl"),
            api_url=outputs.get("SettlementsApiUrl"),
            session=session,
        )

    def start(self, request: Request, *, wait: int = 0, seconds: float = 60) -> Reading | None:
        """Start a payment over HTTP; return its reading, or None: it is claimed and goes on, so `wait`.

        `wait` is the number of seconds, from 1 to 20, that a call may wait for the end. A lost answer, 429 or
        a status from 500 up repeats the same request for `seconds`; 0 is one try. Raises Refused: nothing was
        written. Raises Unknown: call again with the same request.
        """
        return posting.start(self._address("api_url").rstrip("/"), self._session, request, wait, seconds)

    def start_express(self, request: Request) -> Outcome:
        """Settle a payment and return its outcome, after 300 s at most.

        Raises Refused: nothing was written. Raises Unknown: call again with the same request.
        """
        return starting.start_express(self._patient, self._address("express_arn"), request)

    def start_standard(self, request: Request) -> str:
        """Start a settlement now and return its execution's ARN; `wait` for its end.

        Raises Unknown: call again with the same request. The stack refuses a request in the execution alone.
        """
        return starting.start_standard(self._prompt, self._address("standard_arn"), request)

    def send(self, request: Request) -> None:
        """Send a request to the start queue; `wait` for its end.

        Raises Unknown: send the same request again. Refused messages go to the stack's dead-letter queue.
        """
        starting.send(self._sqs, self._address("queue_url"), request)

    def status(self, key: str) -> Reading:
        """Return a settlement as it is now, by the readers' API. Raises NotFound, or Unavailable."""
        return self._readers.status(key)

    def wait(self, key: str, seconds: float, after: int | None = None) -> Reading:
        """Wait for a sequence above `after`; without it, for a final status or LIMBO.

        When the time is over, it returns the settlement as it is: look at it. Raises NotFound if the key is
        not claimed by then, or Unavailable if the last call had no answer.
        """
        return self._readers.wait(key, seconds, after)

    def journal(self, since: datetime | None = None, *, cursor: str | None = None) -> Iterator[JournalPage]:
        """Yield the pages of the whole journal: the entries posted from an instant on, as they were sealed.

        `cursor` is that of the last page that the caller has kept, with the same `since`. An entry may come
        twice, equal to the first. Raises Unavailable: go on from the cursor of the page before.
        """
        return pages(self._readers, since, cursor)

    def cancel(self, request: Request, seen: int | None = None) -> Reading:
        """Cancel a payment that was started with `request`, before its hold or in review; return it then.

        `seen` is the sequence of the reading that was decided on: another one is not cancelled. Raises
        NotCancellable if it is too late, SequenceChanged, IdempotencyConflict and NotFound. Raises Unknown:
        call again with the same request.
        """
        return cancelling.cancel(self._address("api_url").rstrip("/"), self._session, request, seen)

    @cached_property
    def _patient(self) -> Any:
        return starting.patient(self._session)

    @cached_property
    def _prompt(self) -> Any:
        return starting.prompt(self._session)

    @cached_property
    def _sqs(self) -> Any:
        return self._session.client("sqs")

    @property
    def _readers(self) -> Readers:
        return Readers(self._address("api_url").rstrip("/"), self._session)

    def _address(self, name: str) -> str:
        if address := self._addresses[name]:
            return address
        raise ValueError(f"{name}: this client was made without it")
