"""The stack, as a paragraph: table, functions, machines, pager, provider, recovery, who may do what."""

from aws_cdk import CfnOutput, IStackSynthesizer, Stack
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.alarms import Watched, watch
from infra.dashboard import Dashboard
from infra.functions import HandlerFunction
from infra.kyc import Kyc
from infra.paging import Paging
from infra.recovery import Recovery
from infra.settings import Settings
from infra.starting import Starting
from infra.state_machines import Machine, SettlementMachine
from infra.table import SettlementTable

GRANTS = {
    "ClaimKey": ("dynamodb:PutItem",),
    "HoldFunds": ("dynamodb:PutItem", "dynamodb:UpdateItem"),
    "VerifyKyc": ("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"),
    "ReleaseFunds": ("dynamodb:PutItem", "dynamodb:UpdateItem"),
    "CollectFee": ("dynamodb:PutItem", "dynamodb:UpdateItem"),
    "RejectSettlement": ("dynamodb:UpdateItem",),
    "ReportOutcome": ("dynamodb:GetItem",),
    "BeginCompensation": ("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"),
    "RefundFee": ("dynamodb:PutItem", "dynamodb:UpdateItem"),
    "ReclaimFunds": ("dynamodb:PutItem", "dynamodb:UpdateItem"),
    "VoidHold": ("dynamodb:PutItem", "dynamodb:UpdateItem"),
    "EnterLimbo": ("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"),
    "PreparePage": ("dynamodb:GetItem",),
    "AwaitResolution": ("dynamodb:UpdateItem",),
    "ResolveLimbo": ("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"),
}
"""The function of each state, and what it does to rows. A transaction is authorised by its items' actions."""

TRIGGERED = {
    "KycDecided": ("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"),
    "RecoverStalled": ("dynamodb:GetItem", "dynamodb:UpdateItem"),
    "StartSettlements": ("dynamodb:PutItem",),
}
"""The same for the functions that no machine calls: behind a webhook, the clock and a queue."""

KEYS = {
    "VerifyKyc": ("SETTLEMENT#*", "CIRCUIT"),
    "KycDecided": ("SETTLEMENT#*", "KYC_EVENT#*"),
    "RecoverStalled": ("SETTLEMENT#*",),
    "StartSettlements": ("SETTLEMENT#*",),
}
"""The partition keys that they may touch: what a stranger has sent or answered must not reach a balance."""


class SettlementStack(Stack):
    """Everything that settles a payment, for one stage."""

    def __init__(
        self, scope: Construct, *, settings: Settings, synthesizer: IStackSynthesizer | None = None
    ) -> None:
        super().__init__(
            scope,
            settings.stack_name,
            synthesizer=synthesizer,
            termination_protection=settings.keeps_data,
        )

        table = SettlementTable(self, "Ledger", settings=settings)

        environment = {
            "TABLE_NAME": table.table.table_name,
            "TERMS": settings.terms,
            "PAGING": settings.paging,
            "POWERTOOLS_LOG_LEVEL": "INFO",
        }
        functions = {
            name: HandlerFunction(self, name, settings=settings, environment=environment)
            for name in GRANTS | TRIGGERED
        }
        for name, actions in (GRANTS | TRIGGERED).items():
            table.grant(functions[name], *actions, rows=KEYS.get(name, ("*",)))
        table.grant_listing(functions["RecoverStalled"])

        paging = Paging(self, "Paging", settings=settings)
        compensation = Machine(
            self,
            "Compensation",
            definition="compensation",
            machine_type=sfn.StateMachineType.STANDARD,
            names={**functions, "EventBus": paging.bus.event_bus_name},
            settings=settings,
        )
        compensation.allow(["events:PutEvents"], [paging.bus.event_bus_arn])
        paging.watch(compensation)

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

        kyc = Kyc(self, "Kyc", functions=functions, settings=settings)
        kyc.watch(paging)
        paging.bus.grant_put_events_to(functions["VerifyKyc"])
        functions["VerifyKyc"].add_environment("EVENT_BUS", paging.bus.event_bus_name)
        for name in TRIGGERED:
            standard.start_from(functions[name], "SETTLEMENT_MACHINE")
        compensation.start_from(functions["RecoverStalled"], "COMPENSATION_MACHINE")
        compensation.followed_by(functions["RecoverStalled"])
        Recovery(self, "Recovery", function=functions["RecoverStalled"], paging=paging)
        starting = Starting(self, "Starting", function=functions["StartSettlements"], settings=settings)

        watched = Watched(
            ledger=table,
            functions=functions,
            express=express,
            standard=standard,
            compensation=compensation,
            starting=starting,
        )
        watch(paging, watched, settings=settings)
        Dashboard(self, "Dashboard", watched, paging=paging)

        CfnOutput(self, "TableName", value=table.table.table_name)
        CfnOutput(self, "SettlementExpressArn", value=express.state_machine_arn)
        CfnOutput(self, "SettlementStandardArn", value=standard.state_machine_arn)
        CfnOutput(self, "CompensationArn", value=compensation.state_machine_arn)
        CfnOutput(self, "EventBusName", value=paging.bus.event_bus_name)
        CfnOutput(self, "PagerTopicArn", value=paging.topic.topic_arn)
        CfnOutput(self, "KycWebhookUrl", value=kyc.webhook.url)
        CfnOutput(self, "KycCredentialsArn", value=kyc.credentials.secret_arn)
        CfnOutput(self, "KycSigningArn", value=kyc.signing.secret_arn)
        CfnOutput(self, "RecoverStalledArn", value=functions["RecoverStalled"].function_arn)
        CfnOutput(self, "StartQueueUrl", value=starting.queue.queue_url)
        CfnOutput(self, "StartDeadLetterQueueUrl", value=starting.dead_letters.queue_url)
        CfnOutput(self, "SettlementTerms", value=settings.terms)
