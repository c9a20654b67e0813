"""The stage's side of its KYC provider: the shared secrets, the webhook, and alarms on both."""

import json
import string
from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.config import Settings
from infra.pager import Pager
from infra.webhook import Webhook

HEALTH = {"check": "health"}
"""The schedule's event, as `handlers/verify_kyc.py` has it."""


class Kyc(Construct):
    """The provider's two secrets, each for the one function that needs it, and the webhook's address.

    A new stage's secrets are random: until an operator stores the provider's API key, the provider refuses
    every request.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        functions: Mapping[str, lambda_.Function],
        pager: Pager,
        settings: Settings,
    ) -> None:
        super().__init__(scope, construct_id)
        verify, webhook = functions["VerifyKyc"], functions["KycDecided"]
        self.credentials = self._secret("Credentials", {}, "api_key", settings)
        _let_read(verify, self.credentials)
        self.signing = self._secret("Signing", {"previous": None}, "current", settings)
        _let_read(webhook, self.signing)
        description = settings.kyc.to_json(
            secret_id=self.credentials.secret_arn, runbook=f"{settings.runbooks}/kyc-outage.md"
        )
        verify.add_environment("KYC", description)
        verify.add_environment("EVENT_BUS", pager.bus.event_bus_name)
        pager.bus.grant_put_events_to(verify)
        if settings.kyc.health_path:
            self._check_health(verify)
        webhook.add_environment("KYC_SIGNING_SECRET", self.signing.secret_arn)
        self.webhook = Webhook(self, "Webhook", function=webhook, pager=pager, settings=settings)
        _add_alarms(pager)

    def _check_health(self, verify: lambda_.Function) -> None:
        """Let the function look each minute whether an open circuit can be closed without a payment.

        It is VerifyKyc, as no other function reaches the provider. A lost or failed run is not repeated.
        """
        verify.configure_async_invoke(retry_attempts=0, max_event_age=Duration.minutes(1))
        scheduler.Schedule(
            self,
            "EachMinuteHealth",
            schedule=scheduler.ScheduleExpression.rate(Duration.minutes(1)),
            target=targets.LambdaInvoke(
                verify, input=scheduler.ScheduleTargetInput.from_object(HEALTH), retry_attempts=0
            ),
        )

    def _secret(
        self, construct_id: str, known: dict[str, None], generated: str, settings: Settings
    ) -> secretsmanager.ISecret:
        secret = secretsmanager.CfnSecret(
            self,
            construct_id,
            generate_secret_string=secretsmanager.CfnSecret.GenerateSecretStringProperty(
                secret_string_template=json.dumps(known),
                generate_string_key=generated,
                exclude_characters=string.punctuation,  # the rest is base64, as a signature's key must be
                password_length=44,
            ),
        )
        secret.apply_removal_policy(settings.removal_policy)
        # Not by its Ref: on AWS that is the ARN, but on the embedded AWS the name.
        return secretsmanager.Secret.from_secret_complete_arn(self, f"{construct_id}Arn", secret.attr_id)


def _let_read(function: lambda_.Function, secret: secretsmanager.ISecret) -> None:
    """Let a function read a secret's value, and not describe it, as CDK's own grant would."""
    function.add_to_role_policy(
        iam.PolicyStatement(actions=["secretsmanager:GetSecretValue"], resources=[secret.secret_arn])
    )


def _add_alarms(pager: Pager) -> None:
    """Add alarms on an open circuit, refused requests, unreadable secrets, and contradictory verdicts."""
    pager.alarm(
        "KycCircuitOpen",
        pager.metric("KycCircuit", statistic="Maximum").with_(period=Duration.minutes(1)),
        "The KYC provider is unavailable: settlements are compensated.",
        # The circuit writes its metric when it changes. Until then the alarm keeps its state.
        missing=cloudwatch.TreatMissingData.IGNORE,
    )
    pager.alarm(
        "KycRequestRefused",
        pager.metric("KycRequestRefused"),
        "The KYC provider refuses requests: the API key may be wrong.",
        threshold=3,
    )
    pager.alarm(
        "KycSecretUnreadable",
        pager.metric("KycSecretUnreadable"),
        "A function cannot read a secret that it shares with the KYC provider.",
    )
    pager.alarm(
        "KycVerdictConflict",
        pager.metric("KycVerdictConflict"),
        "The KYC provider contradicts a verdict on record.",
    )
