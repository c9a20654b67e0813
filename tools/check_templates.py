"""Check the synthesised templates with cfn-lint, checkov and AWS's service authorization reference.

`python tools/check_templates.py BIN TEMPLATE...`, where BIN has the commands and their Python. A finding
without an explanation in `infra/template_findings.toml` fails the check; so does an explanation without a
finding.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

EXPLAINED = Path(__file__).parent.parent / "infra" / "template_findings.toml"
INERT_GRANTS = Path(__file__).parent / "inert_grants.py"


class Finding(NamedTuple):
    """A rule that a resource of a template breaks, with the resource's logical id without its hash."""

    rule: str
    resource: str
    meaning: str


def of_cfn_lint(folder: Path, templates: list[Path]) -> Iterator[Finding]:
    """Yield cfn-lint's findings."""
    for found in _json(folder / "cfn-lint", "--format", "json", *templates):
        path = found["Location"]["Path"] or ["", "(template)"]
        yield Finding(found["Rule"]["Id"], _name(str(path[1])), found["Message"])


def of_checkov(folder: Path, templates: list[Path]) -> Iterator[Finding]:
    """Yield checkov's findings, by its rules on this machine: it asks no server."""
    options = ("--framework", "cloudformation", "--quiet", "--compact", "--output", "json")
    for found in _json(folder / "checkov", *options, "--file", *templates)["results"]["failed_checks"]:
        resource = found["resource"].rpartition(".")[2]
        yield Finding(found["check_id"], _name(resource), found["check_name"])


def of_the_reference(folder: Path, templates: list[Path]) -> Iterator[Finding]:
    """Yield grants of unknown actions, and grants on an ARN of actions that need `*`."""
    for template in templates:
        for resource, action in _json(folder / "python", INERT_GRANTS, template):
            yield Finding("InertGrant", _name(resource), f"{action} is unknown, or is allowed on * alone")


def unexplained(found: set[Finding], explained: dict[str, Any]) -> Iterator[str]:
    """Yield each finding without an explanation, and each explanation without a finding."""
    for rule, resource, meaning in sorted(found):
        if not any(fnmatchcase(resource, one) for one in explained.get(rule, {}).get("on", ())):
            yield f"{rule} {resource}: {meaning}"
    for rule, explanation in explained.items():
        resources = {one.resource for one in found if one.rule == rule}
        for pattern in explanation["on"]:
            if not any(fnmatchcase(one, pattern) for one in resources):
                yield f"{rule} {pattern}: is explained, and found no more; remove it"


def main(folder: Path, templates: list[Path]) -> int:
    """Exit with 0 if each finding in the templates is explained, and each explanation needed."""
    checks = (of_cfn_lint, of_checkov, of_the_reference)
    found = {one for of in checks for one in of(folder, templates)}
    wrong = list(unexplained(found, tomllib.loads(EXPLAINED.read_text())))
    print("\n".join(wrong) or f"{len(found)} findings in {len(templates)} templates, each explained")
    return 1 if wrong else 0


def _json(*command: Path | str) -> Any:
    """Return a command's output. Its exit code only says whether it found something."""
    finished = subprocess.run(command, check=False, capture_output=True, text=True)
    try:
        return json.loads(finished.stdout)
    except ValueError:
        raise SystemExit(f"{command[0]}: has printed no JSON\n{finished.stdout}{finished.stderr}") from None


def _name(logical_id: str) -> str:
    return re.sub(r"[0-9A-F]{8}$", "", logical_id)


if __name__ == "__main__":
    folder, *templates = map(Path, sys.argv[1:])
    sys.exit(main(folder, templates))
