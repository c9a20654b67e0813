"""The stack of one stage, as a paragraph: data, compute, provider, triggers, permissions, monitoring."""

from aws_cdk import CfnOutput, IStackSynthesizer, Stack, Tags
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.acceptance import Acceptance
from infra.alarms import Watched, watch
from infra.backup import Backup
from infra.books import Books
from infra.config import Settings
from infra.dashboard import Dashboard
from infra.doors import StartQueue
from infra.events import Outcomes
from infra.functions import HandlerFunction
from infra.grants import GRANTS, TRIGGERED, grant_rows, grant_starts
from infra.journal import Journal
from infra.kyc import Kyc
from infra.merchants import Merchants
from infra.migration import MigrationRole
from infra.orders import OrdersApi
from infra.pager import Pager
from infra.people import Doors, People
from infra.proof import Reconciliation
from infra.recovery import Recovery
from infra.settlements_api import SettlementsApi
from infra.signing import RowKeys
from infra.state_machines import CompensationMachine, SettlementMachine
from infra.table import SettlementTable
from infra.urgency import Urgency


class SettlementStack(Stack):
    """The resources that settle payments on one stage."""

    def __init__(
        self, scope: Construct, *, settings: Settings, synthesizer: IStackSynthesizer | None = None
    ) -> None:
        super().__init__(
            scope,
            settings.stack_name,
            synthesizer=synthesizer,
            termination_protection=settings.keeps_data,
        )
        if not settings.is_embedded:  # the embedded AWS has no bill
            for name, value in settings.tags.items():
                Tags.of(self).add(name, value)
        ledger = SettlementTable(self, "Ledger", settings=settings)
        pager = Pager(self, "Pager", settings=settings)
        environment = {
            "TABLE_NAME": ledger.table.table_name,
            "STAGE_CONFIG": settings.stage_config,
            "PAGER": settings.pager,
            "POWERTOOLS_LOG_LEVEL": "INFO",
            "POWERTOOLS_SERVICE_NAME": settings.stack_name,
        }
        row_keys = RowKeys(self, "RowKeys", settings=settings)
        functions = {
            name: HandlerFunction(
                self,
                name,
                settings=settings,
                environment=environment | row_keys.environment(name),
                encryption=row_keys.encryption if row_keys.environment(name) else None,
            )
            for name in (*GRANTS, *TRIGGERED)
        }
        grant_rows(ledger, functions)

        compensation = CompensationMachine(
            self, "Compensation", bus=pager.bus, functions=functions, settings=settings
        )
        pager.watch(compensation)
        express, standard = (
            SettlementMachine(
                self,
                construct_id,
                machine_type=machine_type,
                compensation=compensation,
                functions=functions,
                settings=settings,
            )
            for construct_id, machine_type in (
                ("SettlementExpress", sfn.StateMachineType.EXPRESS),
                ("SettlementStandard", sfn.StateMachineType.STANDARD),
            )
        )
        grant_starts(functions, express=express, standard=standard, compensation=compensation)

        kyc = Kyc(self, "Kyc", functions=functions, pager=pager, settings=settings)
        Recovery(self, "Recovery", function=functions["RecoverStalled"], pager=pager, settings=settings)
        Reconciliation(
            self, "Reconciliation", function=functions["ReconcileBooks"], pager=pager, settings=settings
        )
        merchants = Merchants(
            self,
            "Merchants",
            function=functions["SweepMerchants"],
            pager=pager,
            settings=settings,
        )
        outcomes = Outcomes(
            self,
            "Outcomes",
            function=functions["PublishEvents"],
            ledger=ledger,
            pager=pager,
            settings=settings,
        )
        merchants.fed_by(functions["PublishEvents"])
        journal = Journal(
            self,
            "Journal",
            function=functions["SealJournal"],
            ledger=ledger,
            pager=pager,
            settings=settings,
        )
        journal.read_by(functions["ReadSettlements"])
        books = None
        if settings.books_every_minutes is not None:
            books = Books(
                self,
                "Books",
                function=HandlerFunction(self, "ProjectEntries", settings=settings, environment=environment),
                journal=journal,
                pager=pager,
                settings=settings,
            )
        if settings.backup_days is not None:
            Backup(self, "Backup", ledger=ledger, pager=pager, settings=settings)
        orders = OrdersApi(self, "Orders", function=functions["TakeOrder"], settings=settings)
        functions["TakeOrder"].add_environment("EVENT_BUS", pager.bus.event_bus_name)
        pager.bus.grant_put_events_to(functions["TakeOrder"])
        settlements = SettlementsApi(
            self,
            "Settlements",
            reading=functions["ReadSettlements"],
            starting=functions["AcceptSettlements"],
            cancelling=functions["CancelSettlement"],
            settings=settings,
        )
        people = People(
            self,
            "People",
            ledger=ledger,
            doors=Doors(orders, settlements),
            journal=journal,
            machines=(standard, compensation),
        )
        pager.send_by(functions["SendPage"])
        migration = (
            MigrationRole(self, "Migration", ledger=ledger, migration=settings.migration)
            if settings.migration
            else None
        )
        start = StartQueue(self, "Start", function=functions["StartSettlements"], settings=settings)

        watched = Watched(
            ledger=ledger,
            functions=functions,
            express=express,
            standard=standard,
            compensation=compensation,
            start=start,
            merchants=merchants,
            journal=journal,
            outcomes=outcomes,
            webhook=kyc.webhook,
        )
        watch(pager, watched, settings=settings)
        acceptance = None
        if not settings.must_reach_people:
            acceptance = Acceptance(self, "Acceptance", people=people, parts=watched, kyc=kyc)
        for machine in (express, standard):
            if machine.live:
                machine.live.stopped_by(pager.alarms)
        Dashboard(self, "Dashboard", watched, pager=pager)

        for name, value in {
            "TableName": ledger.table.table_name,
            "SettlementExpressArn": express.state_machine_arn,
            "SettlementStandardArn": standard.state_machine_arn,
            "CompensationArn": compensation.state_machine_arn,
            "EventBusName": pager.bus.event_bus_name,
            "OutcomeBusName": outcomes.bus.event_bus_name,
            "PagerTopicArn": pager.topics[Urgency.NOW].topic_arn,
            "MorningTopicArn": pager.topics[Urgency.MORNING].topic_arn,
            "InformationTopicArn": pager.topics[Urgency.INFORMATION].topic_arn,
            "KycWebhookUrl": kyc.webhook.url,
            "KycCredentialsArn": kyc.credentials.secret_arn,
            "KycSigningArn": kyc.signing.secret_arn,
            "RowKeyArns": " ".join(row_keys.arns),
            "OrdersUrl": orders.url,
            "SettlementsApiUrl": settlements.url,
            "ReaderPolicyArn": settlements.reader.ref,
            "StarterPolicyArn": settlements.starter.ref,
            "StartQueueUrl": start.queue.queue_url,
            "StartDeadLetterQueueUrl": start.dead_letters.queue_url,
            "SweepsGivenUpQueueUrl": merchants.given_up.queue_url,
            "EventsPutAsideQueueUrl": outcomes.put_aside.queue_url,
            "EventsGivenUpQueueUrl": outcomes.given_up.queue_url,
            "JournalBucket": journal.bucket.bucket_name,
            "JournalGivenUpQueueUrl": journal.given_up.queue_url,
            **people.outputs,
            **({"AcceptancePolicyArn": acceptance.policy.ref} if acceptance else {}),
            **({"OrderedTopicArn": outcomes.topic.topic_arn} if outcomes.topic else {}),
            **(books.outputs if books else {}),
            **({"MigrationRoleArn": migration.role.role_arn} if migration else {}),
            "StageConfig": settings.stage_config,
        }.items():
            CfnOutput(self, name, value=value)
