"""Parses each shell command on the docs' pages as its program would."""

import importlib.util
import json
import re
import tomllib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import botocore.session
from botocore import xform_name

from infra.config import CONTEXT
from settle import cli
from tests.unit.shown_documents import check_document
from tests.world.pages import PROJECT
from tests.world.shell import split


def settle(words: list[str]) -> None:
    """Parse a `settle` command: options, values and required parameters."""
    command: Any = cli.command()
    context = command.make_context("settle", [*words])
    while hasattr(command, "commands"):
        left = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, left)
        context = command.make_context(name, rest, parent=context)


TARGETS = set(re.findall(r"^([\w./-]+):(?!=)", (PROJECT / "Makefile").read_text(), re.MULTILINE))


def make(words: list[str]) -> None:
    targets = [word for word in words if "=" not in word]
    assert targets
    assert {*targets} <= TARGETS


def aws(words: list[str]) -> None:
    """Check an `aws` command against botocore's model, on which the AWS CLI is built."""
    service, operation, *rest = words
    model = botocore.session.get_session().get_service_model(service)
    names = {xform_name(name, "-"): name for name in model.operation_names}
    assert operation in names
    shape = model.operation_model(names[operation]).input_shape
    known = {xform_name(name, "-") for name in (shape.members if shape else {})} | {
        "query",
        "output",
        "region",
    }
    given = {word.removeprefix("--") for word in rest if word.startswith("--")}
    assert {option if option in known else option.removeprefix("no-") for option in given} <= known


def cdk(words: list[str]) -> None:
    assert words[0] in {"bootstrap", "synth", "diff", "deploy", "destroy"}
    of_delivery = "python3 -m infra.delivery" in words
    known = {"stage", "repository", "acceptance"} if of_delivery else {*CONTEXT}
    given = {after.partition("=")[0] for word, after in pairwise(words) if word == "-c"}
    assert given <= known


def pip(words: list[str]) -> None:
    """Check that a page installs a folder of the checkout, because no registry has our packages."""
    assert words[0] == "install"
    for word in words[1:]:
        folder, extras = re.fullmatch(r"([./\w-]+)(?:\[(\w+)\])?", word).groups()  # type: ignore[union-attr]
        assert folder.startswith("."), f"{word}: is not a folder of the checkout"
        manifest = tomllib.loads((PROJECT / folder / "pyproject.toml").read_text())
        assert extras is None or extras in manifest["project"]["optional-dependencies"]


def python(words: list[str]) -> None:
    match words:
        case ["-c", program, *_]:
            compile(program, "-c", "exec")
        case ["-m", module, *_]:
            assert importlib.util.find_spec(module)
        case [script, *_]:
            assert (PROJECT / script).is_file()


def with_json(words: list[str]) -> None:
    """Check each JSON document among the words, such as a request body."""
    for word in words:
        if word.startswith("{"):
            check_document(json.loads(word))


def subshell(words: list[str]) -> None:
    for word in words:
        if inner := re.fullmatch(r"\$\((.*)\)", word):
            check_line(inner[1])


def anything(words: list[str]) -> None:
    """Accept any words of a program that the project does not contain."""


PROGRAMS: dict[str, Callable[[list[str]], None]] = {
    "settle": settle,
    "make": make,
    "aws": aws,
    "cdk": cdk,
    "pip": pip,
    "python": python,
    "curl": with_json,
    "echo": with_json,
    "eval": subshell,
    **dict.fromkeys(("cd", "export", "gh", "ln", "mutmut", "rm", "sleep"), anything),
}


def check_line(line: str) -> None:
    for words in split(line):
        check_command(words)


def check_command(words: list[str]) -> None:
    program, *rest = words[1:] if words[0] == "nice" else words
    name = program.removeprefix(".venv/bin/")
    assert name in PROGRAMS, f"{name}: no check for this program"
    PROGRAMS[name](rest)
