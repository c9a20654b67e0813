"""What the handlers read and return, out of their own code."""

import ast
from collections.abc import Iterator

from infra.functions import LAMBDAS

ANSWERS = {
    "ClaimKey": {"settlement", "claimed_at", "replayed", "recoveries"},
    "BeginCompensation": {"settlement", "steps", "reversed", "finished", "in_limbo", "case", "pages"},
    "PreparePage": {"settlement", "case", "pages", "page", "wait_seconds"},
    "ResolveLimbo": {"settlement", "case", "news"},
}
"""What a function returns whose answer becomes the state: these fields in any case, and maybe more."""


def read_from(state: str, name: str) -> set[str]:
    """The fields without which a handler cannot do, of what it calls `name`: its event, or a part of it."""
    return {
        str(node.slice.value)
        for node in _nodes(state)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
        and isinstance(node.slice, ast.Constant)
    }


def looked_for(state: str, name: str) -> set[str]:
    """The fields of what a handler calls `name` that it uses where they are there."""
    asked = {
        str(node.args[0].value)
        for node in _nodes(state)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "get"
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == name
        and isinstance(node.args[0], ast.Constant)
    }
    tested = {
        str(node.left.value)
        for node in _nodes(state)
        if isinstance(node, ast.Compare)
        and isinstance(node.ops[0], ast.In | ast.NotIn)
        and isinstance(node.comparators[0], ast.Name)
        and node.comparators[0].id == name
        and isinstance(node.left, ast.Constant)
    }
    return asked | tested


def returned(state: str) -> set[str]:
    """The fields of the state that a handler returns: of the one object that has the settlement in it."""
    (found,) = (
        {str(key.value) for key in node.keys if isinstance(key, ast.Constant)}
        for node in _nodes(state)
        if isinstance(node, ast.Dict) and any(_is(key, "settlement") for key in node.keys)
    )
    return found


def answered(state: str) -> list[set[str]]:
    """The fields that each `return` of a handler's own function is sure to give."""
    (own,) = (node for node in _nodes(state) if isinstance(node, ast.FunctionDef) and node.name == "handler")
    given = [node.value for node in ast.walk(own) if isinstance(node, ast.Return)]
    return [
        {str(key.value) for key in value.keys if isinstance(key, ast.Constant)}
        if isinstance(value, ast.Dict)
        else set()
        for value in given
    ]


def errors_raised(*modules: str) -> set[str]:
    """The names of the errors that the `raise` statements of some modules under lambdas/ make."""
    return {
        node.exc.func.id
        for module in modules
        for node in ast.walk(ast.parse((LAMBDAS / f"{module}.py").read_text()))
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and isinstance(node.exc.func, ast.Name)
    }


def _is(key: ast.expr | None, name: str) -> bool:
    return isinstance(key, ast.Constant) and key.value == name


def _nodes(state: str) -> Iterator[ast.AST]:
    module = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in state)[1:]
    return ast.walk(ast.parse((LAMBDAS / "handlers" / f"{module}.py").read_text()))
