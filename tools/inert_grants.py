"""Print the grants of a template that allow nothing, as JSON; run by `check_templates.py`.

AWS's service authorization reference gives some actions no resource type. They are allowed on `*` alone: a
grant on an ARN is inert. The reference is policy_sentry's copy, which needs no network.
"""

import json
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from policy_sentry.querying.actions import (
    get_actions_for_service,
    get_actions_that_support_wildcard_arns_only,
)


def inert(template: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the logical id and the action of each inert grant, and of each grant of an unknown action."""
    for name, resource in template["Resources"].items():
        for statement in _allowed_to_an_identity(resource):
            everywhere = _listed(statement["Resource"]) == ["*"]
            for action in _listed(statement["Action"]):
                service = action.partition(":")[0]
                known = {one for one in get_actions_for_service(service) if fnmatchcase(one, action)}
                if not known or (
                    not everywhere and known & {*get_actions_that_support_wildcard_arns_only(service)}
                ):
                    yield name, action


def _allowed_to_an_identity(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        if part.get("Effect") == "Allow" and "Principal" not in part:
            yield part
        part = [*part.values()]
    if isinstance(part, list):
        for one in part:
            yield from _allowed_to_an_identity(one)


def _listed(one: Any) -> list[Any]:
    return one if isinstance(one, list) else [one]


if __name__ == "__main__":
    print(json.dumps(sorted(inert(json.loads(Path(sys.argv[1]).read_text())))))
