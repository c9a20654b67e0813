import re

import pytest

from infra.config import STAGES
from tests.infra.alarms import ALARMS, OPTIONAL_ALARMS, SUMS, deployed
from tests.infra.stack import each_stage, runbooks
from tests.world.templates import PROJECT

RUNBOOKS = PROJECT / "docs" / "runbooks"
EACH = sorted(path.name for path in RUNBOOKS.glob("*.md"))


def sections() -> dict[str, str]:
    _, *found = re.split(r"^## ", (RUNBOOKS / "alarms.md").read_text(), flags=re.MULTILINE)
    return {heading: text for heading, _, text in (one.partition("\n") for one in found)}


def anchors(runbook: str) -> set[str]:
    """Return a file's anchors, derived from headings by GitHub's rule."""
    headings = re.findall(r"^#+ (.+)$", (RUNBOOKS / runbook).read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(text: str) -> list[str]:
    return re.findall(r"`((?:settle|aws) [^`]+)`", text)


@each_stage
def test_an_alarms_message_has_meaning_first_command_and_runbook_address(stage: str) -> None:
    """CloudWatch shows at most 1,024 characters of a description."""
    option = "" if STAGES[stage].is_embedded else f" --stack settlement-{stage}"
    for alarm, found in deployed(stage).items():
        told, run, read = found["AlarmDescription"].split("\n")
        assert told.endswith("."), alarm
        (command, *_) = commands(sections()[alarm].partition("**Look.**")[2])
        named = command.replace(" $STACK", option).replace("settlement-prod", f"settlement-{stage}")
        assert run == f"Run: {' '.join(named.split())}", alarm
        assert read == f"Read: {runbooks(stage)}/alarms.md#{alarm.lower()}", alarm
        assert read.partition("#")[2] in anchors("alarms.md"), alarm
        assert len(found["AlarmDescription"]) <= 1024, alarm


def test_each_alarm_has_one_section_in_the_runbook() -> None:
    assert sorted(sections()) == sorted([*ALARMS, *OPTIONAL_ALARMS, *SUMS])


@pytest.mark.parametrize("alarm", [*ALARMS, *OPTIONAL_ALARMS, *SUMS])
def test_each_runbook_section_explains_meaning_checks_and_action(alarm: str) -> None:
    _, means, look, act = re.split(r"^\*\*(?:Means|Look|Act)\.\*\* ", sections()[alarm], flags=re.MULTILINE)

    assert means.strip()
    assert 1 <= len(commands(look)) <= 2, "one or two commands to begin with"
    assert act.strip()


def test_the_runbooks_table_lists_the_sections_in_their_order() -> None:
    table = (RUNBOOKS / "alarms.md").read_text().partition("\n## ")[0]

    found = re.findall(r"\[(\w+)\]\(#(\w+)\)", table)

    assert [alarm for alarm, _ in found] == list(sections())
    assert all(anchor == alarm.lower() for alarm, anchor in found)


def test_every_runbook_can_be_found_from_the_first_page() -> None:
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", (RUNBOOKS / "README.md").read_text()))

    assert listed | {"README.md"} == set(EACH)


@pytest.mark.parametrize(
    "runbook", ["compensation-stalled", "dead-pager", "kyc-outage", "limbo", "settlement-stalled"]
)
def test_each_incidents_runbook_says_how_to_look_act_and_verify(runbook: str) -> None:
    text = (RUNBOOKS / f"{runbook}.md").read_text()

    found = re.findall(r"^## (.+)$", text, re.MULTILINE)

    assert text.startswith("# ")
    assert {"What happened", "Look", "Act", "Verify"} <= set(found)
