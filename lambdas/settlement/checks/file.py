"""Reads a file with a check. `python -m settlement.checks.file FILE` prints its declaration as JSON."""

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from settlement.checks.check import Check


def load(path: Path) -> Check:
    """Raises ValueError, which names the file and its fault."""
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


def main() -> None:
    try:
        check = load(Path(sys.argv[1]))
    except ValueError as fault:
        raise SystemExit(str(fault)) from None
    declared = {"name": check.name, "refusals": check.refusals, "wait_seconds": check.wait_seconds}
    print(json.dumps(declared))


if __name__ == "__main__":
    main()
