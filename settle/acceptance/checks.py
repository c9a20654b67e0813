"""The checks in their order. Alarms come before the checks that raise some."""

from settle.acceptance import payments, trouble, watching
from settle.acceptance.verdict import Check

CHECKS = (
    Check("alarms", watching.alarms),
    Check(
        "express",
        payments.express,
        ("the managed Python runtime", "the `sync-` host name of StartSyncExecution"),
    ),
    Check("standard", payments.standard, ("the managed Python runtime",)),
    Check("queue", payments.queue),
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
        "events",
        watching.events,
        ("reading an encrypted stream by the function's role", "EventBridge's delivery of outcome events"),
    ),
    Check("recovery", trouble.recovery, ("EventBridge Scheduler's minute",), seconds_max=900),
    Check("limbo", trouble.limbo, ("key policies of the encrypted topic",)),
    Check("metrics", watching.metrics, ("metrics out of the functions' logs",), seconds_max=600),
    Check("capacity", watching.capacity, ("capacity units on AWS itself",)),
)

BOOKS = "books"
"""The check that always ends a run."""

BOOKS_ROWS = ("`{{resolve:secretsmanager:…}}` in a function's environment",)
