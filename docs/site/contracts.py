"""Renders the pages of the contracts, as Markdown, from the files in `docs/contracts/`."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

Node = Mapping[str, Any]

_RANGES = {
    ("minimum", "maximum"): "",
    ("minLength", "maxLength"): " characters",
    ("minItems", "maxItems"): " items",
    ("minProperties", "maxProperties"): " fields",
}
"""Limits of a value, with their units."""

_LONG = 24
"""Maximum characters of a name that cannot wrap: longer ones would narrow the other columns."""


def page(file: Path) -> tuple[str, str]:
    """Return the title of a contract, and its page."""
    content = (json.loads if file.suffix == ".json" else yaml.safe_load)(file.read_text())
    info = content.get("info", content)
    if "openapi" in content:
        parts = _openapi(content)
    elif "asyncapi" in content:
        parts = _asyncapi(content)
    else:
        parts = _json_schema(content)
    head = [f"# {info['title']}", info["description"], f"The file: [`{file.name}`]({file.name})."]
    return info["title"], "\n\n".join([*head, *parts]) + "\n"


def _json_schema(schema: Node) -> Iterator[str]:
    yield "## Fields"
    yield from _schema(schema, schema)
    if named := schema.get("$defs"):
        yield "## Named parts"
        for name, part in named.items():
            yield f"### `{name}`"
            yield from _schema(part, schema)
    if rules := {name: schema[name] for name in ("allOf", "oneOf", "anyOf", "if", "then") if name in schema}:
        yield "## Rules between fields"
        yield _code(rules)
    for number, example in enumerate(schema.get("examples", []), 1):
        yield f"## Example {number}" if len(schema["examples"]) > 1 else "## Example"
        yield _code(example)


def _openapi(api: Node) -> Iterator[str]:
    for server in api.get("servers", []):
        for name, variable in server.get("variables", {}).items():
            yield f"The address is `{name}`. {variable['description']}"
    routes: dict[str, tuple[list[str], Node]] = {}
    for kind in ("paths", "webhooks"):
        for path, item in api.get(kind, {}).items():
            for method, operation in _followed(item, api).items():
                route = f"{method.upper()} {path}" if kind == "paths" else f"Webhook {path}"
                routes.setdefault(json.dumps(operation), ([], operation))[0].append(route)
    for names, operation in routes.values():
        yield from _operation(names, operation, api)
    yield "## Schemas"
    for name, schema in api["components"]["schemas"].items():
        yield f"### {name}"
        yield from _schema(schema, api)
    yield "## Security"
    yield _table(
        "name | in | description",
        [(f"`{one['name']}`", one["in"], one.get("description", "")) for one in _security(api)],
    )


def _security(api: Node) -> list[Node]:
    schemes = api["components"].get("securitySchemes", {}).values()
    return [{"name": one.get("name", one["type"]), "in": one.get("in", ""), **one} for one in schemes]


def _operation(routes: list[str], operation: Node, api: Node) -> Iterator[str]:
    if len(routes) == 1:
        yield f"## {routes[0]}"
        yield f"**{operation['summary']}**"
    else:
        yield f"## {operation['summary'].rstrip('.')}"
        yield "\n".join(f"- `{route}`" for route in routes)
    yield operation.get("description", "")
    if parameters := [_followed(one, api) for one in operation.get("parameters", [])]:
        yield _table(
            "parameter | in | type | description",
            [(_name(one), one["in"], _type(one["schema"], api), _said(one, api)) for one in parameters],
        )
    if body := operation.get("requestBody"):
        yield f"The body: {_contents(body, api)}. {body.get('description', '')}"
    answers: dict[tuple[str, str], list[str]] = {}
    tables: list[str] = []
    for status, one in _followed(operation["responses"], api).items():
        answer = _followed(one, api)
        for content in answer.get("content", {}).values():
            if fields := list(_fields(content["schema"], api)):
                tables += [
                    f"The fields of the answer `{status}`:",
                    _table("field | type | description", fields),
                ]
        answers.setdefault((_contents(answer, api), _answer(answer)), []).append(f"`{status}`")
    yield _table(
        "answer | body | description", [(" ".join(statuses), *answer) for answer, statuses in answers.items()]
    )
    yield from tables


def _answer(answer: Node) -> str:
    headers = ", ".join(f"`{name}`" for name in answer.get("headers", {}))
    return str(answer["description"]) + (f" Headers: {headers}." if headers else "")


def _contents(part: Node, api: Node) -> str:
    return ", ".join(_type(one["schema"], api) for one in part.get("content", {}).values()) or "none"


def _asyncapi(api: Node) -> Iterator[str]:
    yield "## Channels"
    for name, channel in api["channels"].items():
        yield f"### {channel['title']}"
        address = f"Its address is `{channel['address']}`." if channel["address"] else ""
        yield f"`{name}`. {channel['description']} {address}"
        sent = [one for one in api["operations"].values() if one["channel"]["$ref"] == f"#/channels/{name}"]
        yield "\n".join(f"- {one['action']}: {one['summary']}" for one in sent)
    yield "## Messages"
    yield f"Each is of the type `{api['defaultContentType']}`, and is on each channel."
    messages = api["components"]["messages"].values()
    yield _table(
        "message | meaning | schema",
        [(f"`{one['name']}`", one["summary"], _type(one["payload"]["schema"], api)) for one in messages],
    )


def _schema(schema: Node, root: Node) -> Iterator[str]:
    if schema is not root:
        yield schema.get("description", "")
    if fields := list(_fields(schema, root)):
        yield _table("field | type | description", fields)
    elif schema.get("required"):
        yield "Fields: " + ", ".join(f"`{name}`" for name in schema["required"]) + "."
    else:
        yield f"Type: {_type(schema, root)}."
    if schema.get("additionalProperties") is False:
        yield "Closed: an unknown field is refused."


def _fields(schema: Node, root: Node, above: str = "") -> Iterator[tuple[str, str, str]]:
    for name, field in schema.get("properties", {}).items():
        required = name in schema.get("required", [])
        yield _name({"name": above + name, "required": required}), _type(field, root), _said(field, root)
        yield from _fields(field, root, f"{above}{name}.")
        yield from _fields(field.get("items", {}), root, f"{above}{name}[].")


def _name(named: Node) -> str:
    name = f"`{named['name']}`"
    if len(name) > _LONG:
        name += "{.long}"
    return name + (" *" if named.get("required") else "")


def _said(part: Node, root: Node) -> str:
    return str(part.get("description") or _followed(part, root).get("description", ""))


def _type(schema: Node, root: Node) -> str:
    if "$ref" in schema:
        return _linked(schema["$ref"])
    for several in ("oneOf", "anyOf", "allOf"):
        if several in schema and "type" not in schema:
            return (" and " if several == "allOf" else " or ").join(
                _type(one, root) for one in schema[several]
            )
    if "const" in schema:
        return _value(schema["const"])
    if "enum" in schema:
        return ", ".join(map(_value, schema["enum"]))
    kind = schema.get("type", "object" if "properties" in schema else "any")
    words = " or ".join(kind) if isinstance(kind, list) else str(kind)
    if "items" in schema:
        words += " of " + _type(schema["items"], root)
    if isinstance(more := schema.get("additionalProperties"), Mapping):
        words += " of " + _type(more, root)
    return ", ".join([words, *_limits(schema)])


def _limits(schema: Node) -> Iterator[str]:
    for (least, most), unit in _RANGES.items():
        match schema.get(least), schema.get(most):
            case None, None:
                continue
            case low, None:
                yield f"{low} or more{unit}"
            case None, high:
                yield f"at most {high}{unit}"
            case low, high:
                yield f"{low} to {high}{unit}"
    if "pattern" in schema:
        yield f"`{schema['pattern']}`{{.long}}"
    if "default" in schema:
        yield f"default {_value(schema['default'])}"


def _value(value: object) -> str:
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _linked(reference: str) -> str:
    name = re.split(r"[/:]", reference)[-1].removesuffix(".schema.json")
    file = re.match(r"(?:urn:settlement:)?([a-z-]+)(?:\.schema\.json)?(?=#|$)", reference)
    place = f"{file[1]}.schema.json.md" if file else ""
    anchor = f"#{name.lower()}" if "#" in reference else ""
    return f"[{name}]({place}{anchor})"


def _followed(part: Node, root: Node) -> Node:
    """Return a part, or the part of the same file to which it refers."""
    while (reference := part.get("$ref", "")).startswith("#/"):
        found: Any = root
        for step in reference.removeprefix("#/").split("/"):
            found = found[step.replace("~1", "/")]
        part = found
    return part


def _table(head: str, rows: Sequence[tuple[str, ...]]) -> str:
    cells = [[_cell(cell) for cell in row] for row in rows]
    rule = " | ".join("---" for _ in head.split(" | "))
    note = "\n\n\\* required" if any(row[0].endswith(" *") for row in rows) else ""
    return "\n".join(f"| {line} |" for line in (head, rule, *map(" | ".join, cells))) + note


def _cell(text: str) -> str:
    return re.sub(r"(`[^`]*`)|\|", lambda found: found[1] or r"\|", re.sub(r"\s+", " ", text).strip())


def _code(value: Any) -> str:
    return f"```json\n{json.dumps(value, indent=2, ensure_ascii=False)}\n```"
