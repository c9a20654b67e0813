"""moto's DynamoDB with less work for the same answers: the suite spends most of its time in it.

The replaced functions copy, or look up, values that cannot have changed. None of them decides about a write.
"""

import copy
from collections import defaultdict
from functools import cache
from typing import Any

from moto.core import models as core
from moto.core import responses
from moto.core.serialize import BaseJSONSerializer
from moto.dynamodb.comparisons import ConditionExpressionParser
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.dynamodb.models.table import Table
from moto.dynamodb.parsing.expressions import UpdateExpressionParser

_SCALARS = {"S": str, "N": str, "BOOL": bool, "NULL": bool}
"""The types of an attribute with the same form on the wire and in memory, and that form."""

_transact, _copied = DynamoDBBackend.transact_write_items, DynamoType.__deepcopy__
_serialized = BaseJSONSerializer._serialize_type_structure
_parsed = cache(UpdateExpressionParser.make)  # code that changes the tree of an update copies it before
_lexed = cache(lambda text, lex=ConditionExpressionParser._lex_one_node: lex(ConditionExpressionParser, text))
_methods = cache(responses.method_names_from_class)


def lighten() -> None:
    """Make every moto of this process do less. A second call changes nothing."""
    DynamoDBBackend.transact_write_items = transact_write_items
    DynamoType.__deepcopy__ = copied
    BaseJSONSerializer._serialize_type_structure = serialize
    UpdateExpressionParser.make = _parsed
    ConditionExpressionParser._lex_one_node = lambda self, text: _lexed(text)
    responses.method_names_from_class = _methods
    core.RESPONSES_METHODS.clear()  # 1,300 rules per test for `requests`, with which no code here calls AWS


def transact_write_items(self: DynamoDBBackend, transact_items: list[dict[str, Any]]) -> None:
    """Copy the rows that a transaction may have to roll back once, not once for each of its writes.

    moto asks each time for a deep copy of the whole table; it is given the one that was made ahead.
    """
    writes = [write for item in transact_items for write in item.values()]
    tables = [self.tables[name] for name in {write["TableName"] for write in writes} if name in self.tables]
    try:
        for table in tables:
            if table.stream_shard is None:
                snapshot = _snapshot(table, [write for write in writes if write["TableName"] == table.name])
                table.__deepcopy__ = lambda memo, snapshot=snapshot: snapshot
        _transact(self, transact_items)
    finally:
        for table in tables:
            vars(table).pop("__deepcopy__", None)


def copied(self: DynamoType, memo: dict[int, Any]) -> DynamoType:
    """Share a scalar, which is never changed, only replaced."""
    return self if self.type in _SCALARS else _copied(self, memo)


def serialize(self: BaseJSONSerializer, serialized: Any, value: Any, shape: Any, key: str) -> None:
    """Send a scalar attribute as it is, without a search for each possible type."""
    if shape.name == "AttributeValue" and type(value) is dict and len(value) == 1:
        ((name, content),) = value.items()
        if type(content) is _SCALARS.get(name):
            serialized[self.get_serialized_name(shape, key)] = value
            return
    _serialized(self, serialized, value, shape, key)


def _snapshot(table: Table, writes: list[dict[str, Any]]) -> Table:
    """Return the table with its own copies of the written partitions; the others are shared."""
    keys = [write.get("Item") or write["Key"] for write in writes]
    written = {DynamoType(key[table.hash_key_attr]) for key in keys if table.hash_key_attr in key}
    snapshot = copy.copy(table)
    snapshot.items = defaultdict(
        dict,
        {
            partition: copy.deepcopy(rows) if partition in written else rows
            for partition, rows in table.items.items()
        },
    )
    return snapshot
