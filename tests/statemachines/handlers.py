"""The fields that the handlers read and return, found in their source."""

import ast
from collections.abc import Iterator

from infra.functions import LAMBDAS

ANSWERS = {
    "ClaimKey": {"settlement", "claimed_at", "replayed", "owner_epoch"},
    "BeginCompensation": {"settlement", "steps", "reversed", "finished", "in_limbo", "case", "alerts"},
    "PrepareAlert": {"settlement", "case", "alerts", "alert", "wait_seconds"},
    "ResolveLimbo": {"settlement", "case", "notice"},
}
"""The functions whose answer becomes the machine's state: the fields that they always return."""

ANSWERED_BY = {"BeginCompensation": "settlement/policy/compensation"}
"""The module that makes a function's answer; the handler's own, unless named here."""

STATE_READERS = {
    "BeginCompensation": ("settlement/model/compensation_input", ("raw", "causes")),
    "PrepareAlert": ("handlers/prepare_alert", ("given",)),
    "ReportOutcome": ("handlers/report_outcome", ("given",)),
}
"""For each function that gets the whole state: the module that reads it, and its names there.

`causes` are those fields of the state that may cause a compensation.
"""


def event_read(state: str) -> set[str]:
    """Return the fields of its event that a handler needs."""
    return set().union(*(_read(module, "event") for module in _event_readers(state)))


def event_looked_for(state: str) -> set[str]:
    """Return the fields of its event that a handler uses only if they are present."""
    return set().union(*(_looked_for(module, "event") for module in _event_readers(state)))


def state_read(state: str) -> set[str]:
    """Return the fields of the machine's state that a handler needs."""
    module, names = STATE_READERS[state]
    return set().union(*(_read(module, name) for name in names))


def state_looked_for(state: str) -> set[str]:
    """Return the fields of the machine's state that a handler uses only if they are present."""
    module, names = STATE_READERS[state]
    return set().union(*(_looked_for(module, name) for name in names))


def returned(state: str) -> set[str]:
    """Return the fields of the state that a handler returns: those of the one object with a settlement."""
    (found,) = (
        {str(key.value) for key in node.keys if isinstance(key, ast.Constant)}
        for node in _nodes(ANSWERED_BY.get(state, _module(state)))
        if isinstance(node, ast.Dict) and any(_is(key, "settlement") for key in node.keys)
    )
    return found


def answered(state: str) -> list[set[str]]:
    """Return, for each `return` of the handler's own function, the fields that it always has."""
    return [
        {str(key.value) for key in value.keys if isinstance(key, ast.Constant)}
        if isinstance(value, ast.Dict)
        else set()
        for value in _answers(state)
    ]


def answers_nothing(state: str) -> bool:
    """Return whether a handler's own function returns None, which Lambda answers as null."""
    return not any(_answers(state))


def errors_raised(*modules: str) -> set[str]:
    """Return the names of the errors that the `raise` statements of some modules under lambdas/ make.

    An error is made by its class, or by a method of its class.
    """
    called = (
        node.exc.func
        for module in modules
        for node in _nodes(module)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
    )
    classes = (call.value if isinstance(call, ast.Attribute) else call for call in called)
    return {each.id for each in classes if isinstance(each, ast.Name)}


def _read(module: str, name: str) -> set[str]:
    return {
        str(node.slice.value)
        for node in _nodes(module)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
        and isinstance(node.slice, ast.Constant)
    }


def _looked_for(module: str, name: str) -> set[str]:
    asked = {
        str(node.args[0].value)
        for node in _nodes(module)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "get"
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == name
        and isinstance(node.args[0], ast.Constant)
    }
    tested = {
        str(node.left.value)
        for node in _nodes(module)
        if isinstance(node, ast.Compare)
        and isinstance(node.ops[0], ast.In | ast.NotIn)
        and isinstance(node.comparators[0], ast.Name)
        and node.comparators[0].id == name
        and isinstance(node.left, ast.Constant)
    }
    return asked | tested


def _is(key: ast.expr | None, name: str) -> bool:
    return isinstance(key, ast.Constant) and key.value == name


def _event_readers(state: str) -> set[str]:
    """Return the handler's module, and the modules of handlers/ that it passes its whole event to."""
    called = {
        node.func.value.id
        for node in _nodes(_module(state))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and any(isinstance(argument, ast.Name) and argument.id == "event" for argument in node.args)
    }
    return {_module(state), *(f"handlers/{name}" for name in called)}


def _answers(state: str) -> list[ast.expr | None]:
    (own,) = (
        node
        for node in _nodes(_module(state))
        if isinstance(node, ast.FunctionDef) and node.name == "handler"
    )
    return [node.value for node in ast.walk(own) if isinstance(node, ast.Return)]


def _module(state: str) -> str:
    name = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in state)[1:]
    return f"handlers/{name}"


def _nodes(module: str) -> Iterator[ast.AST]:
    return ast.walk(ast.parse((LAMBDAS / f"{module}.py").read_text()))
