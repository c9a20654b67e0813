"""The calls that this project's functions send, repeated with boto3 and nothing else."""

import json
from collections.abc import Sequence
from functools import partial

import boto3
from botocore import xform_name

from benchmarks.rivals import Attempt, Place
from benchmarks.rivals.ours import Ours
from benchmarks.wire import Wire

_KEY = "order-recorded-0000001"


class Bare:
    """A recording of one settlement, which is sent again under other keys."""

    def __init__(self, place: Place, wire: Wire) -> None:
        ours = Ours(place)
        wire.sent.clear()
        for attempt in ours.attempts(_KEY):
            attempt()
        for _, params in wire.sent:
            params.pop("ClientRequestToken", None)  # boto3 makes one for each call
        self._recorded = [(xform_name(name), json.dumps(params)) for name, params in wire.sent]
        self._client = boto3.client("dynamodb", endpoint_url=place.url)

    def attempts(self, key: str) -> Sequence[Attempt]:
        """Return the recorded calls, with another key."""
        made = [(name, json.loads(params.replace(_KEY, key))) for name, params in self._recorded]
        return [partial(getattr(self._client, name), **params) for name, params in made]


enter = Bare
