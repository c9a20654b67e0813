from collections.abc import Mapping
from typing import Any

from settle.migrations.rows import Progress
from settle.output.console import note, or_json, print_line, print_record


@or_json
def plan(told: Mapping[str, Any]) -> None:
    print_record({name: told[name] for name in ("migration", "direction", "rows", "done")})
    for obstacle in told["obstacles"]:
        print_line(f"NOT READY: {obstacle}")


def note_progress(progress: Progress) -> None:
    note(f"{progress.name} {progress.direction}: {progress.read} rows read, {progress.changed} changed")


def progress(progress: Progress, as_json: bool) -> None:
    names = ("name", "direction", "phase", "began_at", "read", "changed", "left", "reason")
    print_record({name: getattr(progress, name) for name in names}, as_json)


@or_json
def verified(told: Mapping[str, Any]) -> None:
    for fault in told["faults"]:
        print_line(f"FAULT {fault}")
    for key in told["left"]:
        print_line(f"LEFT {key}: run the migration again")
    is_right = not (told["faults"] or told["left"])
    print_line(f"{'RIGHT' if is_right else 'NOT RIGHT'}: {told['right']} rows are as they should be")
