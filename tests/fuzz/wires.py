import json
from contextlib import suppress
from datetime import timedelta
from typing import Any

from infra.orders import routes
from infra.rooms import ORDERS
from tests.fuzz.mutation import DEEPEST, TEXTS, Choices, levels_left, mutated
from tests.fuzz.payloads import hostile
from tests.world import posting
from tests.world.environment import NOW
from tests.world.orders import request as ordered
from tests.world.services import PREVIOUS, SECRET, THIRD, Caller

_ROUTES = routes(ORDERS)

_IDS = ("evt_1", "evt_2", "e" * 200, "e" * 201, "evt 1", "é", "evt.1")
_DEPTH_MAX = dict.fromkeys(
    ("kyc_decided", "check_decided", "take_order", "accept_settlements", "cancel_settlement"), 8_000
)
"""Maximum nesting of an HTTP body; a deeper one would exceed 16 KiB."""

_FLAT = (
    *("", " ", "null", "[", "{}", '{"key": NaN}', "{'key': 1}", "\ufeff{}"),
    *("[" * 15_000, "9" * 5_000, "x" * 17_000),
)


def message(name: str, choices: Choices) -> str:
    """Draw a body: hostile JSON, nearly too deep JSON, or no JSON."""
    if choices.below(12) == 11:
        return _utf8(
            _FLAT[choices.below(len(_FLAT))] if choices.below(2) else TEXTS[choices.below(len(TEXTS))]
        )
    deepest = levels_left()
    depth = max(1, min(deepest, _DEPTH_MAX.get(name, deepest)) - choices.below(64))
    lists = "[" * depth + "]" * depth
    return json.dumps(hostile(name, choices)).replace(json.dumps(DEEPEST), lists)


def batch(choices: Choices) -> list[str]:
    return [message("start_settlements", choices) for _ in range(1 + choices.below(3))]


def request(choices: Choices) -> dict[str, Any]:
    """Draw a webhook request, mostly signed correctly, or its body would never be read."""
    return _signed("kyc_decided", choices)


def callback(choices: Choices) -> dict[str, Any]:
    path = "/delivered" if choices.below(8) else ("", "/limits", "/" * 500, "/delivered/é")[choices.below(4)]
    return {**_signed("check_decided", choices), "rawPath": path}


def _signed(function: str, choices: Choices) -> dict[str, Any]:
    body = message(function, choices)
    event = Caller(
        secret={14: PREVIOUS, 15: THIRD}.get(choices.below(16), SECRET),
        at=NOW + timedelta(seconds={12: 299, 13: -299, 14: 301, 15: 10**9}.get(choices.below(16), 0)),
        id=_IDS[choices.below(len(_IDS)) if choices.below(4) == 3 else 0],
    )(body, encode=bool(choices.below(2)))
    match choices.below(8):
        case 5:
            changed = mutated(event["headers"], choices)
            held = changed if isinstance(changed, dict) else {}
            event["headers"] = {name: value for name, value in held.items() if isinstance(value, str)}
        case 6:
            event["isBase64Encoded"] = not event["isBase64Encoded"]
        case 7:
            del event["body"]
    return event


def order(choices: Choices) -> dict[str, Any]:
    body = message("take_order", choices)
    with suppress(ValueError, RecursionError):
        content = json.loads(body)
        named = content.get("decision", content.get("order")) if isinstance(content, dict) else None
        if isinstance(named, str) and named in _ROUTES and choices.below(8):
            return ordered(named, body, "ada")
    decision = ("reverse", "recover", *_ROUTES)[choices.below(len(_ROUTES) + 2)]
    event = ordered(decision, body, "ada")
    match choices.below(8):
        case 5:
            event["requestContext"] = mutated(event["requestContext"], choices)
        case 6:
            event["isBase64Encoded"] = True
        case 7:
            del event["body"]
    return event


def post(choices: Choices) -> dict[str, Any]:
    event = posting.asked(message("accept_settlements", choices))
    match choices.below(8):
        case 4:
            event["headers"]["prefer"] = ("wait=20", "wait=x", "respond-async")[choices.below(3)]
        case 5:
            event["headers"] = {"idempotency-key": _utf8(TEXTS[choices.below(len(TEXTS))])}
        case 6:
            event["isBase64Encoded"] = True
        case 7:
            del event[("body", "headers")[choices.below(2)]]
    return event


def cancel(choices: Choices) -> dict[str, Any]:
    event = posting.cancel(message("cancel_settlement", choices))
    match choices.below(8):
        case 3:
            event["headers"]["if-match"] = ('"1"', '"2"', "3", "*", 'W/"1"')[choices.below(5)]
        case 4:
            event["pathParameters"] = {"key": _utf8(TEXTS[choices.below(len(TEXTS))])}
        case 5:
            event["headers"] = {"if-match": _utf8(TEXTS[choices.below(len(TEXTS))])}
        case 6:
            event["isBase64Encoded"] = True
        case 7:
            del event[("body", "headers", "pathParameters")[choices.below(3)]]
    return event


def reading(choices: Choices) -> dict[str, Any]:
    """Draw a readers' call; API Gateway passes only text parameters."""
    event: dict[str, Any] = hostile("read_settlements", choices)
    for name in ("pathParameters", "queryStringParameters", "headers"):
        held = event.get(name)
        texts = held.items() if isinstance(held, dict) else ()
        event[name] = {one: _utf8(value) for one, value in texts if isinstance(value, str)}
    return event


def _utf8(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
