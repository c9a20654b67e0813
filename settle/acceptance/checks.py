"""Lists the acceptance checks in order: `alarms` comes before the checks that raise alarms."""

from collections.abc import Collection, Sequence
from functools import partial

from settle.acceptance import deployed, payments, provider, trouble, watching
from settle.acceptance.denials import denials
from settle.acceptance.load import REST_SECONDS_MAX, SECONDS, load
from settle.acceptance.ringing import ringing
from settle.acceptance.states import states
from settle.acceptance.verdict import CHECK_SECONDS_MAX, Check
from settle.acceptance.watching import LOGS_SECONDS_MAX

CHECKS = (
    Check("alarms", watching.alarms),
    Check("definitions", deployed.definitions, ("Step Functions refuses an invalid definition",)),
    Check("states", states, ("what an error of a task leads to",), seconds_max=900),
    Check("canary", deployed.canary, ("the alias of a machine",)),
    Check(
        "express",
        payments.express,
        (
            "the managed Python runtime",
            "the managed runtime's urllib3",
            "the `sync-` host name of StartSyncExecution",
            "TLS to the KYC provider from Lambda",
        ),
    ),
    Check("standard", payments.standard, ("the managed Python runtime",)),
    Check("queue", payments.queue),
    Check("services", payments.services, ("the services' API",)),
    Check(
        "same_start",
        payments.same_start,
        ("StartExecution of a Standard machine with the same name", "DescribeExecution of an execution"),
    ),
    Check("twins", payments.twins),
    Check("conflict", payments.conflict),
    Check("refusals", payments.refusals),
    Check(
        "reversal",
        payments.reversal,
        (
            "API Gateway's IAM authorisation",
            "how IAM applies `dynamodb:LeadingKeys`",
        ),
    ),
    Check(
        "webhook",
        provider.webhook,
        ("the function URL's own host name",),
    ),
    Check("review", provider.review),
    Check(
        "events",
        watching.events,
        ("reading an encrypted stream by the function's role", "EventBridge's delivery of outcome events"),
    ),
    Check(
        "denials",
        denials,
        (
            "`dynamodb:LeadingKeys` in the grants of all functions",
            "`dynamodb:Attributes` in the denial on entries",
            "`dynamodb:Attributes` in the denial of a role's other attributes of money",
            "`dynamodb:EnclosingOperation`",
        ),
        seconds_max=900,
    ),
    Check("recovery", trouble.recovery, ("EventBridge Scheduler's minute",), seconds_max=900),
    Check("limbo", trouble.limbo, ("key policies of the encrypted topic",)),
    Check("interval", trouble.interval, ("`TimeoutSecondsPath`",)),
    Check("journal", deployed.journal, ("S3 Object Lock",), seconds_max=600),
    Check("triggers", deployed.triggers, ("two readers of one stream",), seconds_max=900),
    Check("aborted", watching.aborted, ("an alarm that goes off",), seconds_max=1_800),
    Check("metrics", watching.metrics, ("metrics out of the functions' logs",), seconds_max=600),
    Check("proof", deployed.proof, ("`ReconcileBooks` in Lambda",), seconds_max=1_200),
    Check("capacity", watching.capacity, ("capacity units on AWS itself",)),
    Check("circuit", provider.circuit, seconds_max=600),
)
"""`circuit` is last, because VerifyKyc's environments notice late that the circuit has closed."""

RING_ROWS = ("a message of an alarm as a person gets it", "key policies of the encrypted topic")
LOAD_ROWS = (
    "`TransactionConflict` and throttling",
    "quotas of StartExecution and DescribeExecution",
    "a start that Step Functions throttles has not begun",
)


def chosen(only: Collection[str], rates: Sequence[int] = (), *, rings: bool = False) -> list[Check]:
    """Return the checks in `only`, or all, with `ringing` if `rings`, and `load` if there are `rates`."""
    *first, last = CHECKS
    asked = []
    if rings:
        asked.append(Check("ringing", ringing, RING_ROWS, seconds_max=1_200))
    if rates:
        seconds = len(rates) * (SECONDS + REST_SECONDS_MAX + LOGS_SECONDS_MAX + CHECK_SECONDS_MAX)
        asked.append(Check("load", partial(load, rates=[*dict.fromkeys(rates)]), LOAD_ROWS, seconds))
    ends = [last] if not only or last.name in only else []
    return [*(one for one in first if not only or one.name in only), *asked, *ends]


BOOKS = "books"

BOOKS_ROWS = ("`{{resolve:secretsmanager:…}}` in a function's environment",)
