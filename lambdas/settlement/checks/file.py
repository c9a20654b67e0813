"""Loads a stage's check from its file.

`python -m settlement.checks.file FILE` prints the check's declaration as JSON.
"""

import ast
import json
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from settlement.checks.check import Check

_OF_A_FUNCTION = frozenset(
    {
        *("settlement", "boto3", "botocore", "s3transfer", "jmespath", "dateutil", "six", "urllib3"),
        *("aws_lambda_powertools", "typing_extensions"),
    }
)


def load(path: Path) -> Check:
    """Load a file's check. Raises ValueError with the file and its fault."""
    spec = spec_from_file_location(f"check_{path.stem}", path)
    if path.suffix != ".py" or not path.is_file() or spec is None or spec.loader is None:
        raise ValueError(f"{path}: must be a Python file")
    module = module_from_spec(spec)
    sys.modules[module.__name__] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{path}: cannot be imported: {type(error).__name__}: {error}") from None
    check = getattr(module, "CHECK", None)
    if not isinstance(check, Check):
        raise ValueError(f"{path}: must have a CHECK, which is a settlement.checks.check.Check")
    return check


def _missing(path: Path, known: set[str]) -> list[str]:
    """Return the packages that the file needs, directly or not, and that a function lacks."""
    loaded = _packages(sys.modules.keys() - known - {f"check_{path.stem}"})
    named = _packages(_named(path)) & _packages(sys.modules)
    return sorted((loaded | named) - sys.stdlib_module_names - _OF_A_FUNCTION)


def _packages(modules: Iterable[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def _named(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def main() -> None:
    path = Path(sys.argv[1])
    for library in ("boto3", "aws_lambda_powertools"):
        import_module(library)
    known = set(sys.modules)  # with optional libraries that botocore finds here, such as certifi
    try:
        check = load(path)
        if missing := _missing(path, known):
            raise ValueError(f"{path}: imports {', '.join(missing)}, which a function does not have")
    except ValueError as fault:
        raise SystemExit(str(fault)) from None
    declared = {"name": check.name, "refusals": check.refusals, "wait_seconds": check.wait_seconds}
    print(json.dumps(declared))


if __name__ == "__main__":
    main()
