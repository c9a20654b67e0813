"""Each option of a stage changes only its own resources, and its findings are explained."""

from typing import Any, NamedTuple

import pytest
from cdk_nag import AwsSolutionsChecks, PCIDSS321Checks

from infra.config import STAGES
from infra.payruns import PayRunSettings
from tests.infra.alarms import BANK_ALARMS, BOOKS_ALARMS, PAYOUT_ALARMS, PAYRUN_ALARMS
from tests.infra.payouts.stage import PAYOUTS
from tests.infra.stack import (
    OF_PAYOUTS,
    SETTLEMENTS,
    STARTING,
    changed_template,
    each_stage,
    linted,
    readable_resources,
    template,
)
from tests.world.rooms import there

VAULT = "arn:aws:backup:eu-central-1:123456789012:backup-vault:safe"
NO_LOG = "Who puts a file is in CloudTrail, if data events are on; the journal's bucket keeps each file."
NOTHING_SPEAKS = "Nothing is in the network but the cluster, which AWS reaches by a way of its own."


class Option(NamedTuple):
    settings: dict[str, Any]
    own: tuple[str, ...]
    """Name prefixes of the option's own resources."""

    beside: set[str]
    """Other resources of the option."""

    changes: set[str]
    """Resources of every stage that the option changes."""

    explained: dict[type, dict[str, str]]
    """Accepted findings below its construct, with reasons."""


OPTIONS = {
    "Bank": Option(
        {"statements_every_minutes": 60},
        ("Bank", "ReadStatements"),
        {f"Pager{alarm}" for alarm in BANK_ALARMS},
        {"DashboardBoard"},
        {
            AwsSolutionsChecks: {"AwsSolutions-S1": NO_LOG},
            PCIDSS321Checks: {
                "PCI.DSS.321-S3BucketLoggingEnabled": NO_LOG,
                "PCI.DSS.321-S3BucketReplicationEnabled": "A file leaves the bucket once it is read.",
                "PCI.DSS.321-S3DefaultEncryptionKMS": "Whoever puts a file needs no key: a bank's own service"
                " may.",
            },
        },
    ),
    **dict.fromkeys(
        there("payouts", "Payouts"),
        Option(
            {"payouts": PAYOUTS, "statements_every_minutes": 60},
            (
                *("Bank", "ReadStatements"),
                *("Payouts", "PayOut", "SettlementsPayout", "SettlementsPayOut", "SettlementsPayer"),
                *OF_PAYOUTS,
            ),
            {f"Pager{alarm}" for alarm in (*BANK_ALARMS, *PAYOUT_ALARMS)},
            {
                *("DashboardBoard", "TakeOrder", "TakeOrderRoleDefaultPolicy", "SettlementsReader"),
                "OutcomesStream",
                *("PeopleViewer", "PeopleOperator", "PeopleApprover", "PeopleBreakGlass"),
            },
            {
                AwsSolutionsChecks: {
                    "AwsSolutions-SMG4": "The bank has the other half of both: a person rotates them.",
                },
                PCIDSS321Checks: {
                    "PCI.DSS.321-SecretsManagerUsingKMSKey": "Secrets Manager's key encrypts them, and IAM"
                    " admits one function to each.",
                },
            },
        ),
    ),
    "PayRuns": Option(
        {"pay_runs": PayRunSettings()},
        ("PayRuns", "PayLines"),
        {f"Pager{alarm}" for alarm in PAYRUN_ALARMS},
        {
            *("DashboardBoard", "TakeOrder", "OutcomesStream"),
            *("PeopleViewer", "PeopleOperator", "PeopleApprover", "PeopleBreakGlass"),
        },
        {
            AwsSolutionsChecks: {"AwsSolutions-S1": NO_LOG},
            PCIDSS321Checks: {
                "PCI.DSS.321-S3BucketLoggingEnabled": NO_LOG,
                "PCI.DSS.321-S3BucketReplicationEnabled": "Who proposed a run has its spreadsheet.",
                "PCI.DSS.321-S3DefaultEncryptionKMS": "A person who proposes runs needs no key.",
            },
        },
    ),
    "Backup": Option(
        {"backup_days": 35, "backup_copy_to": VAULT},
        ("Backup",),
        set(),
        {"PagerKey", "PagerMorningTopicPolicy"},
        {
            AwsSolutionsChecks: {
                "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/"
                "AWSBackupServiceRolePolicyForBackup]": "AWS keeps it in step with what its backups need.",
            },
            PCIDSS321Checks: {},
        },
    ),
    # A reversal takes the newest code, so its machine has no version.
    "Canary": Option(
        {"canary_percent": 10, "canary_minutes": 20},
        (),
        {f"{machine}Live{kind}" for machine in SETTLEMENTS for kind in ("Version", "Alias")},
        {
            *STARTING,
            *there("doors", "StartSettlementsRoleDefaultPolicy", "AcceptSettlementsRoleDefaultPolicy"),
        },
        {AwsSolutionsChecks: {}, PCIDSS321Checks: {}},
    ),
    # Functions that move money neither reach nor await the books. CKV_AWS_118 stays: machine monitoring costs
    # a role and a log, and the books' alarm shows a slow database.
    **dict.fromkeys(
        there("books", "Books"),
        Option(
            {"books_every_minutes": 1},
            ("Books", "ProjectEntries"),
            {*(f"Pager{alarm}" for alarm in BOOKS_ALARMS), "PagerFinanceTopic", "PagerFinanceTopicPolicy"},
            {"DashboardBoard", "PagerDeliveryFailed"},  # its topic is watched
            {
                AwsSolutionsChecks: {
                    "AwsSolutions-RDS11": "No rule admits a caller to any port.",
                    "AwsSolutions-SMG4": "`settle ledger migrate` sets the projector's; the owner's is a"
                    " person's.",
                    "AwsSolutions-VPC7": NOTHING_SPEAKS,
                },
                PCIDSS321Checks: {
                    "PCI.DSS.321-RDSLoggingEnabled[LogExport::postgresql]": "An error's line has the"
                    " statement, and in it accounts, which no log line has.",
                    "PCI.DSS.321-VPCDefaultSecurityGroupClosed": "No resource is in the default group.",
                    "PCI.DSS.321-VPCFlowLogsEnabled": NOTHING_SPEAKS,
                },
            },
        ),
    ),
}
WANTED = {"local": ("Bank", "PayRuns", *there("payouts", "Payouts"))}
"""Options that a stage enables by default: `local` has a simulated bank on the same machine."""


def synthesised(stage: str, **settings: Any) -> Any:
    """`prod` is synthesised for its findings anyway."""
    return linted(stage, **settings).template if stage == "prod" else changed_template(stage, **settings)


each_option = pytest.mark.parametrize("name", OPTIONS)


@each_option
@each_stage
def test_no_stage_has_an_option_unless_its_operator_wants_it(stage: str, name: str) -> None:
    option = OPTIONS[name]

    if name in WANTED.get(stage, ()):
        assert getattr(STAGES[stage], next(iter(option.settings))) is not None
        return
    assert getattr(STAGES[stage], next(iter(option.settings))) is None
    assert not [one for one in template(stage) if one.startswith(option.own) or one in option.beside]


@each_option
@pytest.mark.parametrize("stage", [pytest.param("dev", marks=pytest.mark.long), "prod"])
def test_an_option_changes_only_its_own_and_listed_resources(stage: str, name: str) -> None:
    before, option = template(stage), OPTIONS[name]
    after = readable_resources(synthesised(stage, **option.settings))

    assert {one for one in before if after.get(one) != before[one]} == option.changes
    added = after.keys() - before.keys()
    assert {one for one in added if not one.startswith((*option.own, "SchedulerRole"))} == option.beside


@each_option
def test_each_lint_finding_of_an_optional_setting_has_a_reason(name: str) -> None:
    for pack, found in linted("prod", **OPTIONS[name].settings).findings.items():
        own = {rule for rule, path in found if path.startswith(f"{name}/")}
        assert own == {*OPTIONS[name].explained[pack]}, pack
