import json
import re

import pytest

from settle.local.record import Running
from settlement.core.model.errors import IdempotencyConflict, InvalidRequest
from settlement.core.model.status import Status
from tests.world.templates import PROJECT

PAGE = (PROJECT / "docs" / "calling" / "starting.md").read_text()
EXAMPLES = {path.name: path.read_text() for path in (PROJECT / "examples" / "starting").glob("*.py")}
GRANTED = {
    "Express": {("states:StartSyncExecution", "arn:aws:states:REGION:ACCOUNT:stateMachine:EXPRESS_NAME")},
    "Standard": {
        ("states:StartExecution", "arn:aws:states:REGION:ACCOUNT:stateMachine:STANDARD_NAME"),
        ("states:DescribeExecution", "arn:aws:states:REGION:ACCOUNT:execution:STANDARD_NAME:*"),
    },
    "The queue": {("sqs:SendMessage", "arn:aws:sqs:REGION:ACCOUNT:QUEUE_NAME")},
}

RESERVED = ("-r<n>-…", "-c<n>-…", "-decided", "-reverse-…", "-resolve-…")


def section(heading: str) -> str:
    return re.split(r"\n## ", PAGE.split(f"\n## {heading}\n")[1])[0]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def rows(heading: str) -> set[str]:
    lines = [line for line in section(heading).splitlines() if line.startswith("| `")]
    return {name for line in lines for name in re.findall(r"`([^`]+)`", line.split("|")[1])}


def test_the_page_shows_the_examples_as_they_are() -> None:
    assert sorted(blocks(PAGE, "python")) == sorted(EXAMPLES.values()) != []


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_example_has_at_most_fifty_lines(name: str) -> None:
    assert len(EXAMPLES[name].splitlines()) <= 50


@pytest.mark.parametrize("way", GRANTED)
def test_each_way_of_starting_has_exactly_its_needed_permissions(way: str) -> None:
    (policy,) = (json.loads(block) for block in blocks(section(way), "json"))

    granted = {(each["Action"], each["Resource"]) for each in policy["Statement"]}

    assert granted == GRANTED[way]
    assert {each["Effect"] for each in policy["Statement"]} == {"Allow"}
    assert policy["Version"] == "2012-10-17"


def test_the_page_explains_every_status() -> None:
    assert set(Status) <= rows("What the answer means")


@pytest.mark.parametrize("example", ["express.py", "standard.py"])
def test_each_example_treats_only_refused_requests_as_final(example: str) -> None:
    final = {InvalidRequest.__name__, IdempotencyConflict.__name__}

    (named,) = re.findall(r"if error in \((.*?)\):", EXAMPLES[example])

    assert set(json.loads(f"[{named}]")) == final


def test_the_page_explains_every_end_of_an_execution() -> None:
    definition = json.loads((PROJECT / "statemachines" / "settlement.asl.json").read_text())
    refusals = definition["States"]["HoldFunds"]["Catch"][0]["ErrorEquals"]
    fixed = {state["Error"] for state in definition["States"].values() if "Error" in state}

    assert {*refusals, *fixed, "States.Timeout", "ExecutionAlreadyExists"} <= rows("What the answer means")


def test_the_page_lists_the_execution_names_reserved_by_the_stack() -> None:
    assert [name for name in RESERVED if f"`<key>{name}`" not in PAGE] == []


def test_the_page_contains_no_account_address_or_local_path() -> None:
    assert not re.findall(r"\d{12}|https?://|127\.0\.0\.1|/(?:work|tmp)/", PAGE)


def test_local_env_prints_every_variable_that_the_examples_read() -> None:
    outputs = {
        "SettlementExpressArn": "x",
        "SettlementStandardArn": "s",
        "StartQueueUrl": "q",
        "SettlementsApiUrl": "https://a1.execute-api.eu-west-1.amazonaws.com",
    }
    variables = Running(1, 4566, 2, outputs=outputs).variables()
    read = {name for text in EXAMPLES.values() for name in re.findall(r'os.environ\["(\w+)"\]', text)}

    assert read
    assert read <= variables.keys()
    assert variables["SETTLEMENTS_API_URL"] == "http://127.0.0.1:4566/_aws/execute-api/a1/$default"
    assert variables["AWS_DISABLE_HOST_PREFIX_INJECTION"] == "true"


def test_the_page_shows_an_example_run_on_the_embedded_aws() -> None:
    (shown,) = blocks(section("On the embedded AWS"), "sh")

    assert shown.startswith('eval "$(settle local env)"\n')
    assert "express.settle(" in shown
