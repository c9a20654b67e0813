"""The interface of a release stays compatible for its callers and stacks."""

import json
import os
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from infra import SettlementSaga
from infra.config import Settings
from settle.exit_codes import Exit
from tests.world import templates

HERE = Path(__file__).parent
RECORDED = os.environ.get("RECORD_RELEASE")
FILE = "interface.json"
RELEASES = sorted({path.parent.name for path in HERE.glob(f"*/{FILE}")} | ({RECORDED} if RECORDED else set()))


def resources() -> dict[str, str]:
    """Return resource types by logical id, because another id would replace a resource and its data."""
    found = templates.template("prod")["Resources"]
    return {logical_id: one["Type"] for logical_id, one in found.items() if "Version" not in one["Type"]}


def outputs() -> dict[str, str]:
    return dict.fromkeys(templates.template("prod")["Outputs"], "output")


def settings() -> dict[str, str]:
    return {
        one.name: "required" if one.default is MISSING and one.default_factory is MISSING else "optional"
        for one in fields(Settings)
    }


def members() -> dict[str, str]:
    return dict.fromkeys(sorted(name for name in vars(SettlementSaga) if not name.startswith("_")), "member")


def exit_codes() -> dict[str, str]:
    return {one.name: str(one.value) for one in Exit}


PARTS: dict[str, Callable[[], dict[str, str]]] = {
    one.__name__: one for one in (resources, outputs, settings, members, exit_codes)
}


@pytest.fixture(scope="module", autouse=True)
def recorded() -> None:
    if RECORDED:
        found = {name: part() for name, part in PARTS.items()}
        (HERE / RECORDED / FILE).write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("release", RELEASES)
def test_nothing_that_an_earlier_release_offered_is_removed_or_changed(release: str, part: str) -> None:
    then: dict[str, str] = json.loads((HERE / release / FILE).read_text())[part]
    now = PARTS[part]()

    assert {name: now.get(name) for name in then} == then


@pytest.mark.parametrize("release", RELEASES)
def test_a_setting_added_after_a_release_is_optional(release: str) -> None:
    then: dict[str, Any] = json.loads((HERE / release / FILE).read_text())["settings"]

    later = {name: kind for name, kind in settings().items() if name not in then}
    assert set(later.values()) <= {"optional"}
