import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from aws_cdk import App, Stack
from aws_cdk.assertions import Template
from botocore.exceptions import EndpointConnectionError
from botocore.stub import ANY, Stubber

from infra import SettlementSaga
from infra.concurrency import UNRESERVED_MIN
from infra.config import STAGES, settings_of
from infra.functions import layer_parameter
from infra.preflight import checks
from infra.preflight.account import BOOTSTRAP_MIN, BOOTSTRAP_PARAMETER
from infra.preflight.definitions import filled
from infra.preflight.finding import Account, Finding, Verdict
from infra.preflight.plan import of_settings, of_template
from infra.preflight.stack import changed
from tests.infra.payouts.stage import BY_FILES, ON
from tests.infra.stack import context, definition, each_stage_on_aws, properties

PROD = settings_of(
    {
        "stage": "prod",
        "kyc_url": "https://kyc.example.com",
        "page_address": "oncall@example.com",
        "runbooks": "https://runbooks.example.com",
    }
)
PLAN, WANTED = of_settings(PROD), PROD.concurrency
QUOTA_MIN = PLAN.reserved + UNRESERVED_MIN
STACK = PROD.stack_name
SECRET = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:KycCredentials-abcdef"
TOPIC = f"arn:aws:sns:eu-west-1:123456789012:{STACK}-PagerNow"
CREATED = datetime(2026, 11, 20, tzinfo=UTC)

Answer = dict[str, Any] | str
"""AWS's answer to a call. A text is an error code, with a message after a colon."""


class Aws:
    """AWS with scripted answers, validated by botocore.

    By default, resources are missing, and unknown calls fail.
    """

    region_name = "eu-west-1"

    def __init__(self, **answers: Answer) -> None:
        self._answers: dict[str, Answer] = {**NOTHING_YET, **answers}
        self.called: list[str] = []

    def client(self, service: str) -> Any:
        client = boto3.client(
            service, region_name=self.region_name, aws_access_key_id="a", aws_secret_access_key="b"
        )
        client.meta.events.register("before-call", self._called)
        stub = Stubber(client)
        stub.activate()
        client.meta.events.register("provide-client-params", lambda **call: self._queue(stub, **call))
        return client

    def _queue(self, stub: Stubber, *, params: dict[str, Any], model: Any, **_others: Any) -> None:
        name = str(model.name)
        answer = self._answers[f"{name}:{params['Name']}" if "Name" in params else name]
        method = next(each for each, of in stub.client.meta.method_to_api_mapping.items() if of == name)
        if isinstance(answer, str):
            code, _, message = answer.partition(":")
            stub.add_client_error(method, code, message)
        else:
            stub.add_response(method, answer, dict.fromkeys(params, ANY))

    def _called(self, model: Any, **_: Any) -> None:
        self.called.append(model.name)


def parameter(value: str) -> dict[str, Any]:
    return {"Parameter": {"Value": value}}


def stack(status: str = "UPDATE_COMPLETE", **outputs: str) -> dict[str, Any]:
    listed = [{"OutputKey": name, "OutputValue": value} for name, value in outputs.items()]
    found = {"StackName": STACK, "StackStatus": status, "CreationTime": CREATED, "Outputs": listed}
    return {"Stacks": [found]}


def quota(all_in_all: int, unreserved: int | None = None) -> dict[str, Any]:
    free = all_in_all if unreserved is None else unreserved
    return {"AccountLimit": {"ConcurrentExecutions": all_in_all, "UnreservedConcurrentExecutions": free}}


def secret(*, stored: bool) -> dict[str, Any]:
    versions = {"1" * 32: ["AWSCURRENT"]} | ({"0" * 32: ["AWSPREVIOUS"]} if stored else {})
    return {"ARN": SECRET, "VersionIdsToStages": versions}


def subscribed(*arns: str) -> dict[str, Any]:
    return {"Subscriptions": [{"SubscriptionArn": arn, "Endpoint": "oncall@example.com"} for arn in arns]}


NO_STACK = f"ValidationError:Stack with id {STACK} does not exist"
LAYER = layer_parameter()
NOTHING_YET: dict[str, Answer] = {
    "GetCallerIdentity": {"Account": "123456789012", "Arn": "arn:aws:iam::123456789012:user/ada"},
    f"GetParameter:{BOOTSTRAP_PARAMETER}": parameter(str(BOOTSTRAP_MIN + 3)),
    f"GetParameter:{LAYER}": parameter("arn:aws:lambda:eu-west-1:017000801446:layer:Powertools:18"),
    "GetAccountSettings": quota(1_000),
    "ValidateStateMachineDefinition": {"result": "OK", "diagnostics": []},
    "DescribeStacks": NO_STACK,
    "ListStackResources": NO_STACK,
    f"DescribeEventBus:{STACK}": "ResourceNotFoundException",
    f"DescribeEventBus:{STACK}-outcomes": "ResourceNotFoundException",
    "DescribeLogGroups": {"logGroups": []},
}

DEPLOYED: dict[str, Answer] = {
    "DescribeStacks": stack(StageConfig=PROD.stage_config, KycCredentialsArn=SECRET, PagerTopicArn=TOPIC),
    "ListStackResources": {"StackResourceSummaries": []},
    "DescribeSecret": secret(stored=True),
    "ListSubscriptionsByTopic": subscribed(f"{TOPIC}:1"),
}

BOOKS: dict[str, Answer] = DEPLOYED | {
    "DescribeStacks": stack(StageConfig=PROD.stage_config, KycCredentialsArn=SECRET, FinanceTopicArn=TOPIC)
}
"""A deployed stack with books in Aurora, paging no person."""


def described(status: str = "UPDATE_COMPLETE", **config: Any) -> dict[str, Answer]:
    told = json.dumps(json.loads(PROD.stage_config) | config)
    return DEPLOYED | {"DescribeStacks": stack(status, StageConfig=told)}


def found(**answers: Answer) -> dict[str, Finding]:
    return {one.check: one for one in checks.findings(Account(Aws(**answers), PLAN))}


def verdicts(**answers: Answer) -> dict[str, str]:
    return {
        name: one.verdict.value for name, one in found(**answers).items() if one.verdict is not Verdict.FINE
    }


def test_preflight_finds_nothing_lacking_in_a_ready_account() -> None:
    assert list(found()) == [
        *("identity", "bootstrap", "layer", "concurrency", "definitions"),
        *("stack", "names"),
    ]
    assert list(found(**DEPLOYED)) == [
        *("identity", "bootstrap", "layer", "concurrency", "definitions"),
        *("stack", "currencies", "secrets", "pages"),
    ]
    assert verdicts() == verdicts(**DEPLOYED) == verdicts(**BOOKS) == {}
    assert found(**BOOKS)["finance"].found == "1 confirmed subscription(s) to FinanceTopicArn"


def test_no_preflight_check_makes_a_writing_call() -> None:
    for answers in ({}, DEPLOYED):
        aws = Aws(**answers)
        list(checks.findings(Account(aws, PLAN)))
        assert {
            name for name in aws.called if not name.startswith(("Get", "Describe", "List", "Validate"))
        } == set()


LACKING: dict[str, tuple[str, dict[str, Answer], str]] = {
    "no bootstrap": (
        "bootstrap",
        {f"GetParameter:{BOOTSTRAP_PARAMETER}": "ParameterNotFound"},
        "CDK is not bootstrapped in eu-west-1",
    ),
    "an old bootstrap": (
        "bootstrap",
        {f"GetParameter:{BOOTSTRAP_PARAMETER}": parameter(str(BOOTSTRAP_MIN - 1))},
        f"has version {BOOTSTRAP_MIN - 1}, and needs {BOOTSTRAP_MIN}",
    ),
    "no layer": ("layer", {f"GetParameter:{LAYER}": "ParameterNotFound"}, f"has no parameter {LAYER}"),
    "a small quota": (
        "concurrency",
        {"GetAccountSettings": quota(QUOTA_MIN - 1)},
        f"needs a quota of {QUOTA_MIN} concurrent executions, and the account has {QUOTA_MIN - 1}",
    ),
    "a quota that others have reserved": (
        "concurrency",
        {"GetAccountSettings": quota(1_000, WANTED.reserved + UNRESERVED_MIN - 1)},
        f"other functions leave {WANTED.reserved + UNRESERVED_MIN - 1}",
    ),
    "a definition that is refused": (
        "definitions",
        {
            "ValidateStateMachineDefinition": {
                "result": "FAIL",
                "diagnostics": [{"severity": "ERROR", "code": "MISSING_END_STATE", "message": "no end"}],
            }
        },
        "refuses the definition of Compensation: MISSING_END_STATE: no end",
    ),
    "a failed creation": ("stack", {"DescribeStacks": stack("ROLLBACK_COMPLETE")}, "its creation has failed"),
    "a change set alone": (
        "stack",
        {"DescribeStacks": stack("REVIEW_IN_PROGRESS")},
        "a change set, such as that of an interrupted validation, and no resource",
    ),
    "a change under way": ("stack", described("UPDATE_IN_PROGRESS"), "is UPDATE_IN_PROGRESS"),
    "a change that is stuck": ("stack", described("UPDATE_ROLLBACK_FAILED"), "is UPDATE_ROLLBACK_FAILED"),
    "a bus of the name": (
        "names",
        {f"DescribeEventBus:{STACK}": {"Name": STACK}},
        f"there is an event bus {STACK} already",
    ),
    "a log group of the name": (
        "names",
        {"DescribeLogGroups": {"logGroups": [{"logGroupName": f"/aws/vendedlogs/states/{STACK}-Express"}]}},
        f"a log group /aws/vendedlogs/states/{STACK}-Express",
    ),
    "a log group of an API's name": (
        "names",
        {
            "DescribeLogGroups": {
                "logGroups": [{"logGroupName": f"/aws/vendedlogs/apigateway/{STACK}-orders"}]
            }
        },
        f"a log group /aws/vendedlogs/apigateway/{STACK}-orders",
    ),
    "a currency that goes": (
        "currencies",
        described(currencies={"GBP": 2}),
        "GBP is deployed with the exponent 2, and must stay",
    ),
    "a random API key": ("secrets", DEPLOYED | {"DescribeSecret": secret(stored=False)}, "the random one"),
    "no subscription": ("pages", DEPLOYED | {"ListSubscriptionsByTopic": subscribed()}, "reaches no one"),
    "a subscription that waits": (
        "pages",
        DEPLOYED | {"ListSubscriptionsByTopic": subscribed("PendingConfirmation")},
        "oncall@example.com has not confirmed",
    ),
    "no subscription of finance": (
        "finance",
        BOOKS | {"ListSubscriptionsByTopic": subscribed()},
        "FinanceTopicArn reaches no one",
    ),
}


@pytest.mark.parametrize("case", LACKING)
def test_preflight_says_what_is_lacking_and_what_to_do(case: str) -> None:
    check, answers, told = LACKING[case]
    one = found(**answers)[check]

    assert verdicts(**answers) == {check: "lacking"}
    assert told in one.found
    assert one.do


@each_stage_on_aws
def test_preflight_judges_the_machine_definitions_of_the_template(stage: str) -> None:
    machines = properties(stage, "StepFunctions::StateMachine")
    plan = of_settings(settings_of(context(stage)))

    assert {one.machine for one in plan.definitions} == machines.keys()
    for one in plan.definitions:
        judged, machine = json.loads(filled(one)), one.machine
        deployed = definition(stage, machine)
        starts = {
            "${StartCompensation}": machines[machine]["DefinitionSubstitutions"].get("StartCompensation")
        }
        resources = {key: state.get("Resource") for key, state in deployed["States"].items()}
        assert {key: state.get("Resource") for key, state in judged["States"].items()} == {
            key: starts.get(name, name) for key, name in resources.items()
        }
        assert machines[machine].get("StateMachineType", "STANDARD") == one.kind
        assert "${" not in json.dumps(judged)


@pytest.mark.parametrize(
    "changes",
    [{}, {"powertools_layer": "arn:aws:lambda:eu-west-1:123456789012:layer:Powertools:9"}, ON, BY_FILES],
    ids=["prod", "with a layer", "a bank by events", "a bank by files"],
)
def test_preflight_reads_the_same_plan_from_settings_or_template(changes: dict[str, Any]) -> None:
    settings = replace(PROD, **changes)
    app = Stack(App(), "Payments")
    SettlementSaga(app, "Saga", settings=settings)

    ours, of_app = of_settings(settings), of_template(Template.from_stack(app).to_json(), "Payments", "Saga")

    assert [replace(one, text="") for one in of_app.definitions] == [
        replace(one, text="") for one in ours.definitions
    ]
    assert [json.loads(filled(one)) for one in of_app.definitions] == [
        json.loads(filled(one)) for one in ours.definitions
    ]
    assert replace(of_app, definitions=(), template=None) == replace(
        ours, stack="Payments", saga="Saga", definitions=()
    )


def test_preflight_reads_a_sagas_own_outputs_of_its_stack() -> None:
    outputs = {
        "SagaStageConfig": PROD.stage_config,
        "SagaKycCredentialsArn": SECRET,
        "PagerTopicArn": "other",
    }
    answers = DEPLOYED | {"DescribeStacks": stack(**outputs), "DescribeSecret": secret(stored=False)}
    plan = replace(PLAN, stack="Payments", saga="Saga")
    told = {one.check: one for one in checks.findings(Account(Aws(**answers), plan))}

    assert told["stack"].found == "Payments is UPDATE_COMPLETE"
    assert (told["currencies"].verdict, told["secrets"].verdict) == (Verdict.FINE, Verdict.LACKING)
    assert "pages" not in told


@pytest.mark.parametrize(("table", "verdicts"), [("Ledger", ["fine"]), ("Other", ["lacking"])])
def test_an_app_that_would_replace_data_is_refused(table: str, verdicts: list[str]) -> None:
    deployed, planned = ({"Resources": {one: {"Type": "AWS::DynamoDB::Table"}}} for one in ("Ledger", table))
    aws = Aws(**DEPLOYED, GetTemplate={"TemplateBody": json.dumps(deployed)})
    told = checks.findings(Account(aws, replace(PLAN, template=planned)))

    assert [one.verdict.value for one in told if one.check == "data"] == verdicts


GIVEN = "arn:aws:lambda:eu-west-1:123456789012:layer:Powertools:9"
NO_PARAMETER: dict[str, Answer] = {f"GetParameter:{LAYER}": "ParameterNotFound"}
FITS: dict[str, Answer] = {
    "GetLayerVersionByArn": {"CompatibleRuntimes": ["python3.13"], "CompatibleArchitectures": ["arm64"]}
}


@pytest.mark.parametrize(
    ("answers", "verdict", "told"),
    [
        (NO_PARAMETER | FITS, "fine", "as configured"),
        (FITS | {f"GetParameter:{LAYER}": parameter(GIVEN)}, "fine", "as configured"),
        (FITS | {f"GetParameter:{LAYER}": parameter(f"{GIVEN}0")}, "lacking", f"is not {GIVEN}0, the tests'"),
        (
            NO_PARAMETER | {"GetLayerVersionByArn": {"CompatibleRuntimes": ["python3.12"]}},
            *("lacking", "is not for python3.13 on arm64"),
        ),
        (
            NO_PARAMETER | {"GetLayerVersionByArn": "ResourceNotFoundException"},
            "lacking",
            "there is no layer",
        ),
        (NO_PARAMETER | {"GetLayerVersionByArn": "AccessDeniedException"}, "unknown", "AccessDenied"),
    ],
)
def test_preflight_checks_a_configured_layers_version_and_runtime(
    answers: dict[str, Answer], verdict: str, told: str
) -> None:
    account = Account(Aws(**answers), replace(PLAN, powertools_layer=GIVEN))
    (one,) = (each for each in checks.findings(account) if each.check == "layer")

    assert (one.verdict, told in one.found) == (verdict, True), one


def test_concurrency_the_stack_already_reserves_counts_as_free() -> None:
    free = UNRESERVED_MIN + WANTED.reserved - 60
    own: dict[str, Any] = {
        "LogicalResourceId": "VerifyKyc",
        "PhysicalResourceId": "VerifyKyc",
        "ResourceType": "AWS::Lambda::Function",
        "LastUpdatedTimestamp": CREATED,
        "ResourceStatus": "CREATE_COMPLETE",
    }
    answers = DEPLOYED | {"GetAccountSettings": quota(1_000, free)}
    reserved: dict[str, Answer] = {
        "ListStackResources": {"StackResourceSummaries": [own]},
        "GetFunctionConcurrency": {"ReservedConcurrentExecutions": 60},
    }

    assert verdicts(**answers) == {"concurrency": "lacking"}
    assert verdicts(**answers | reserved) == {}
    assert verdicts(**answers | reserved | {"GetFunctionConcurrency": "ResourceNotFoundException"}) == {
        "concurrency": "lacking"
    }


@pytest.mark.parametrize(
    ("operation", "check"),
    [
        ("GetAccountSettings", "concurrency"),
        ("DescribeLogGroups", "names"),
        (f"GetParameter:{LAYER}", "layer"),
        ("ValidateStateMachineDefinition", "definitions"),
    ],
)
@pytest.mark.parametrize("code", ["AccessDeniedException", "ThrottlingException"])
def test_a_refused_call_leaves_its_preflight_check_unknown(operation: str, check: str, code: str) -> None:
    answers = {operation: code}
    one = found(**answers)[check]

    assert verdicts(**answers) == {check: "unknown"}
    assert code in one.found
    assert ("ReadOnlyAccess" in one.do) == ("Denied" in code)


def test_a_stack_that_cannot_be_read_is_not_reported_missing() -> None:
    asked = {"DescribeStacks": "Throttling:Rate exceeded"}

    assert set(verdicts(**asked)) == {"stack", "names", "currencies", "secrets", "pages", "finance"}


def test_preflight_without_an_aws_identity_makes_no_further_call() -> None:
    class Silent(Aws):
        def client(self, service: str) -> Any:
            raise EndpointConnectionError(endpoint_url=f"https://{service}")

    aws = Aws(GetCallerIdentity="ExpiredToken")
    (refused,), (unanswered,) = (list(checks.findings(Account(one, PLAN))) for one in (aws, Silent()))

    assert (refused.check, refused.verdict, aws.called) == ("identity", Verdict.UNKNOWN, [])
    assert (unanswered.check, unanswered.verdict) == ("identity", Verdict.UNKNOWN)
    assert unanswered.found == "no answer: EndpointConnectionError"


def test_without_the_stacks_configuration_the_currencies_are_unknown() -> None:
    assert verdicts(**DEPLOYED | {"DescribeStacks": stack()}) == {"currencies": "unknown"}


@pytest.mark.parametrize(
    ("executions", "lacking"), [(10, {"concurrency"}), (99, {"concurrency"}), (100, set())]
)
def test_without_reserved_concurrency_a_stage_needs_quota_of_100(executions: int, lacking: set[str]) -> None:
    dev = STAGES["dev"]
    answers = {
        f"DescribeEventBus:{dev.stack_name}{end}": "ResourceNotFoundException" for end in ("", "-outcomes")
    }
    told = checks.findings(Account(Aws(**answers, GetAccountSettings=quota(executions)), of_settings(dev)))

    assert {one.check for one in told if one.verdict is not Verdict.FINE} == lacking


@pytest.mark.parametrize(
    ("planned", "problems"),
    [
        ({"EUR": 2, "JPY": 0, "CO2": 3}, []),
        ({"EUR": 2, "JPY": 0, "CO2": 3, "USD": 2}, []),
        ({"EUR": 3, "JPY": 0, "CO2": 3}, ["EUR is deployed with the exponent 2, and must not get 3"]),
        ({"EUR": 2, "CO2": 3}, ["JPY is deployed with the exponent 0, and must stay"]),
        (
            {"JPY": 2},
            [
                "CO2 is deployed with the exponent 3, and must stay",
                "EUR is deployed with the exponent 2, and must stay",
                "JPY is deployed with the exponent 0, and must not get 2",
            ],
        ),
    ],
)
def test_a_deployed_currency_must_keep_its_exponent(planned: dict[str, int], problems: list[str]) -> None:
    assert list(changed({"EUR": 2, "JPY": 0, "CO2": 3}, planned)) == problems
