from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from typing import Any

import boto3

from settlement_client import cancelling, paying_out, posting, starting
from settlement_client.journal import JournalPage, pages
from settlement_client.outcome import Outcome
from settlement_client.payout import Payout, PayoutOutcome
from settlement_client.reading import Readers, Reading
from settlement_client.request import Request


class Client:
    """A stack's client. Each method needs one of the constructor's addresses.

    Use one client per thread: boto3 requires one session per thread. `session` has the credentials and the
    region. Without it, they come from the environment.
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
        """Return a deployed stack's client. Its CloudFormation outputs have the addresses.

        `name` is `settlement-prod`, or `STACK/SAGA` for a saga in your own CDK app.
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
        """Start a payment over HTTP. Return its reading. None: it is claimed and in flight, so `wait` for it.

        `wait` is how long one call may wait for the end, 1 to 20 s. The same request is repeated for
        `seconds` after a lost answer, 429 or a status from 500; `seconds=0` means one try. Raises
        Refused: nothing was written. Raises Unknown: call again with the same request.
        """
        return posting.start(self._address("api_url").rstrip("/"), self._session, request, wait, seconds)

    def start_express(self, request: Request) -> Outcome:
        """Settle a payment by the Express workflow, in at most 300 s. Return its outcome.

        Raises Refused: nothing was written. Raises Unknown: call again with the same request.
        """
        return starting.start_express(self._patient, self._address("express_arn"), request)

    def start_standard(self, request: Request) -> str:
        """Start a Standard workflow, and return its execution's ARN. Call `wait` for the outcome.

        Raises Unknown: call again with the same request. A refused request raises nothing here: the execution
        reports it.
        """
        return starting.start_standard(self._prompt, self._address("standard_arn"), request)

    def send(self, request: Request) -> None:
        """Send a request to the start queue. Call `wait` for the outcome.

        Raises Unknown: send the same request again. Refused messages go to the stack's dead-letter queue.
        """
        starting.send(self._sqs, self._address("queue_url"), request)

    def status(self, key: str) -> Reading:
        """Return a settlement's current reading, from the readers' API. Raises NotFound or Unavailable."""
        return self._readers.status(key)

    def wait(self, key: str, seconds: float, after: int | None = None) -> Reading:
        """Return a reading with a sequence above `after`. Without `after`, wait for a final status or LIMBO.

        After `seconds`, return the current reading, so check its status. Raises NotFound if the key is still
        unclaimed. Raises Unavailable if the last call had no answer.
        """
        return self._readers.wait(key, seconds, after)

    def journal(self, since: datetime | None = None, *, cursor: str | None = None) -> Iterator[JournalPage]:
        """Yield the pages of the whole sealed journal, with the entries posted at `since` or later.

        `cursor` comes from the last page that you stored. Pass the same `since` with it. An entry may come
        twice, with equal content. Raises Unavailable: continue from the previous page's cursor.
        """
        return pages(self._readers, since, cursor)

    def cancel(self, request: Request, seen: int | None = None) -> Reading:
        """Cancel the payment started with `request`, before its hold or in review. Return its reading.

        `seen` is the sequence that you read: a payment changed since is not cancelled. Raises NotCancellable
        if it is too late. Raises SequenceChanged, IdempotencyConflict and NotFound. Raises Unknown: call
        again with the same request.
        """
        return cancelling.cancel(self._address("api_url").rstrip("/"), self._session, request, seen)

    def pay_out(self, payout: Payout, *, seconds: float = 60) -> PayoutOutcome:
        """Start a payout over HTTP, and return its current state: most payouts take days.

        It repeats the request and raises errors as `start` does.
        """
        return paying_out.pay_out(self._address("api_url").rstrip("/"), self._session, payout, seconds)

    def payout(self, key: str) -> PayoutOutcome:
        """Return a payout as it is now. Raises NotFound, or Unavailable."""
        return paying_out.read(self._readers, key)

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
