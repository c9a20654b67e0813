import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from settle.door import Door, embedded_url
from settle.exit_codes import CommandFailed, Exit
from settle.local import needs_extra
from settle.local.record import CREDENTIALS, REGION, STACK_NAME, Running, reached_at
from settlement.core.model.command import command
from settlement.core.model.stage_config import StageConfig
from settlement.core.store.dynamodb import Store
from settlement.signing.signature import RowKeys

EXPRESS_SECONDS_MAX = 300
"""Time limit of an Express execution, and so of a synchronous call."""

_MARK = "StageConfig"
"""Every saga has this output and TableName, with the saga's name as prefix."""

CONNECTIONS = 10
"""A client's connections: botocore's default."""


@dataclass(frozen=True)
class Place:
    """Where a stack's table is, for another process, which cannot get a session."""

    table_name: str
    endpoint_url: str | None
    region_name: str | None

    def store(self) -> Store:
        session = _local_session() if self.endpoint_url else boto3.Session(region_name=self.region_name)
        return Store(client_of(session, "dynamodb", self.endpoint_url), self.table_name)


class Outputs(dict[str, str]):
    """A saga's outputs. Reading an absent output raises CommandFailed."""

    def __missing__(self, name: str) -> str:
        raise CommandFailed(
            Exit.NOT_FOUND,
            f"stack: has no output {name}: it is too old, or leaves out what brings it; deploy it again",
        )


@dataclass(frozen=True)
class Stack:
    """A deployed saga. `name` is its stack, or `STACK/SAGA` in your own app."""

    name: str
    outputs: dict[str, str]
    session: boto3.Session
    endpoint_url: str | None = None

    def command(self, verb: str, *words: str, **options: object) -> str:
        """Return a command with `--stack`. The embedded AWS's own stack does not need this option."""
        is_found = self.endpoint_url is not None and self.name == STACK_NAME
        return command(verb, *words, **options, stack=None if is_found else self.name)

    @property
    def cloudformation(self) -> str:
        return self.name.partition("/")[0]

    @property
    def saga(self) -> str:
        """The saga's name within the stack. Empty: the stack is the saga."""
        return self.name.partition("/")[2]

    @property
    def service(self) -> str:
        """The prefix of the saga's physical names. It is also the dimension of its metrics."""
        return self.outputs["EventBusName"]

    @cached_property
    def config(self) -> StageConfig:
        return StageConfig.from_json(self.outputs["StageConfig"])

    @cached_property
    def store(self) -> Store:
        """The table, accessed by the functions' own code."""
        return Store(self.client("dynamodb"), self.outputs["TableName"])

    @cached_property
    def row_keys(self) -> RowKeys:
        """The keys that sign rows. Raises CommandFailed without permission to read them."""
        arns, secrets = self.outputs["RowKeyArns"].split(), self.client("secretsmanager")
        try:
            texts = [secrets.get_secret_value(SecretId=arn)["SecretString"] for arn in arns]
        except ClientError as error:
            raise CommandFailed(
                Exit.FAILED,
                f"row keys: {error.response['Error']['Code']}: `settle reconcile --no-signatures`"
                " judges all but who put the rows",
            ) from error
        return RowKeys.from_text(" ".join(f"{number}:{text}" for number, text in enumerate(texts, start=1)))

    @property
    def door(self) -> Door:
        """The orders' API. People never write to the table. Raises CommandFailed."""
        return self._door("OrdersUrl")

    @property
    def services(self) -> Door:
        return self._door("SettlementsApiUrl")

    def _door(self, output: str) -> Door:
        url = self.outputs[output].rstrip("/")
        return Door(embedded_url(url, self.endpoint_url) if self.endpoint_url else url, self.session)

    @property
    def webhook_url(self) -> str:
        url = self.outputs["KycWebhookUrl"]
        return reached_at(url, self.endpoint_url) if self.endpoint_url else url

    @property
    def place(self) -> Place:
        return Place(self.outputs["TableName"], self.endpoint_url, self.session.region_name)

    def client(self, service: str, attempts: int = 5) -> Any:
        """Return a client that waits as long as a synchronous Express execution may take."""
        return client_of(self.session, service, self.endpoint_url, attempts)


def client_of(
    session: boto3.Session,
    service: str,
    endpoint_url: str | None,
    attempts: int = 5,
    connections: int = CONNECTIONS,
) -> Any:
    config = Config(
        inject_host_prefix=endpoint_url is None,
        read_timeout=EXPRESS_SECONDS_MAX + 10,
        max_pool_connections=connections,
        retries={"total_max_attempts": attempts, "mode": "standard"},
    )
    return session.client(service, endpoint_url=endpoint_url, config=config)


def find(name: str | None) -> Stack:
    """Find a stack with the usual AWS variables; without a name, the embedded stack."""
    return _embedded() if name is None else _deployed(name)


def embedded(running: Running) -> Stack:
    return Stack(STACK_NAME, Outputs(running.outputs), _local_session(), running.endpoint_url)


def _local_session() -> boto3.Session:
    return boto3.Session(
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        region_name=REGION,
    )


def _embedded() -> Stack:
    with needs_extra("no stack: pass --stack NAME, or use the embedded AWS"):
        from settle.local import presence

    running = presence.running()
    if running is None:
        raise CommandFailed(Exit.NOT_FOUND, f"no stack: pass --stack NAME; {presence.absence()}")
    return embedded(running)


def _deployed(name: str) -> Stack:
    # The CDK reads AWS_REGION first, and boto3 does not read it.
    session = boto3.Session(region_name=os.environ.get("AWS_REGION") or None)
    stack, _, saga = name.partition("/")
    try:
        answer = session.client("cloudformation").describe_stacks(StackName=stack)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ValidationError":
            raise
        raise CommandFailed(
            Exit.NOT_FOUND, f"stack {stack}: there is none in this account and region"
        ) from error
    outputs = {
        output["OutputKey"]: output["OutputValue"] for output in answer["Stacks"][0].get("Outputs", [])
    }
    return Stack(name, of_saga(outputs, stack, saga), session, _embedded_address())


def _embedded_address() -> str | None:
    """Return AWS_ENDPOINT_URL if it names this machine, as after `settle local env`."""
    url = os.environ.get("AWS_ENDPOINT_URL", "")
    return url if urlsplit(url).hostname in ("127.0.0.1", "localhost") else None


def sagas_of(outputs: Iterable[str]) -> list[str]:
    """Return the names of the sagas with these outputs. A saga alone in its stack has an empty name."""
    names = set(outputs)
    found = (name.removesuffix(_MARK) for name in names if name.endswith(_MARK))
    return sorted(saga for saga in found if f"{saga}TableName" in names)


def of_saga(outputs: dict[str, str], stack: str, saga: str) -> Outputs:
    """Return a saga's outputs, by names without its prefix. Raises CommandFailed for an unknown saga."""
    sagas = sagas_of(outputs)
    if saga not in sagas:
        if not sagas:
            raise CommandFailed(Exit.NOT_FOUND, f"stack {stack}: is no settlement stack, or not deployed yet")
        told = " or ".join(f"{stack}/{one}" if one else stack for one in sagas)
        raise CommandFailed(Exit.NOT_FOUND, f"stack {stack}: has other sagas; pass --stack {told}")
    return Outputs(
        (name.removeprefix(saga), value) for name, value in outputs.items() if name.startswith(saga)
    )
