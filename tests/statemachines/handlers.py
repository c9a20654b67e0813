import ast
from collections.abc import Iterator

from infra.assets import LAMBDAS

ANSWERS = {
    "HoldFunds": {"settlement", "claimed_at", "owner_epoch", "nonce"},
    "BeginCompensation": {
        *("settlement", "steps", "reversed", "finished", "in_limbo", "fee_due", "release_due"),
        *("case", "alerts"),
    },
    "PrepareAlert": {"settlement", "case", "alerts", "alert", "wait_seconds"},
    "ResolveLimbo": {"settlement", "case", "notice"},
}
"""Fields always returned by functions whose answer becomes the state."""

ANSWERED_BY = {"BeginCompensation": "settlement/core/policy/compensation"}
"""The module that makes a function's answer, if not its handler's."""


def event_read(state: str) -> tuple[set[str], set[str]]:
    """Return the event fields that a handler needs, and those it uses if present."""
    called = {
        _module(node.func.value.id)
        for node in _nodes(_module(state))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and any(isinstance(argument, ast.Name) and argument.id == "event" for argument in node.args)
    }
    needed, looked_for = set(), set()
    for node in (node for module in (_module(state), *sorted(called)) for node in _nodes(module)):
        match node:
            case ast.Subscript(ast.Name("event"), ast.Constant(field)):
                needed.add(str(field))
            case ast.Call(ast.Attribute(ast.Name("event"), "get"), [ast.Constant(field), *_]):
                looked_for.add(str(field))
            case ast.Compare(ast.Constant(field), [ast.In() | ast.NotIn()], [ast.Name("event")]):
                looked_for.add(str(field))
    return needed, looked_for


def returned(state: str) -> set[str]:
    """Return the fields of the handler's only dict literal with a `settlement`."""
    objects = (node for node in _nodes(ANSWERED_BY.get(state, _module(state))) if isinstance(node, ast.Dict))
    (found,) = (fields for fields in map(_fields, objects) if "settlement" in fields)
    return found


def answered(state: str) -> list[set[str]]:
    """Return the constant fields of each `return` in the handler's function.

    None, which Lambda sends as null, counts as no `return`.
    """
    (own,) = (
        node
        for node in _nodes(_module(state))
        if isinstance(node, ast.FunctionDef) and node.name == "handler"
    )
    values = [node.value for node in ast.walk(own) if isinstance(node, ast.Return) and node.value]
    return [_fields(value) if isinstance(value, ast.Dict) else set() for value in values]


def errors_raised(*modules: str) -> set[str]:
    """Return the errors raised by modules under lambdas/.

    Finds a `raise` of a class, of its method's result, or of a function's result.
    """
    return {name for module in modules for name in _raised_in(module)}


def _raised_in(module: str) -> Iterator[str]:
    nodes = list(_nodes(module))
    makers = {
        node.name: node.returns.id
        for node in nodes
        if isinstance(node, ast.FunctionDef) and isinstance(node.returns, ast.Name)
    }
    for node in nodes:
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            call = node.exc.func
            made_by = call.value if isinstance(call, ast.Attribute) else call
            if isinstance(made_by, ast.Name):
                yield makers.get(made_by.id, made_by.id)


def _fields(node: ast.Dict) -> set[str]:
    return {str(key.value) for key in node.keys if isinstance(key, ast.Constant)}


def _module(state: str) -> str:
    name = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in state)
    (file,) = LAMBDAS.glob(f"handlers/*/{name.removeprefix('_') if state[0].isupper() else name}.py")
    return str(file.relative_to(LAMBDAS).with_suffix(""))


def _nodes(module: str) -> Iterator[ast.AST]:
    return ast.walk(ast.parse((LAMBDAS / f"{module}.py").read_text()))
