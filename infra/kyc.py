"""What the stage shares with its KYC provider, the webhook that it calls, and the alarms on both."""

import json
import string
from collections.abc import Mapping

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.paging import Paging, settlement_metric
from infra.settings import Settings


class Kyc(Construct):
    """The secrets, each for the one function that needs it, and the public address of the webhook.

    A new stage's secrets are chance: until an operator puts the provider's API key, it refuses every request.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        functions: Mapping[str, lambda_.Function],
        settings: Settings,
    ) -> None:
        super().__init__(scope, construct_id)
        self.credentials = self._secret("Credentials", {}, "api_key", settings)
        self.credentials.grant_read(functions["VerifyKyc"])
        self.signing = self._secret("Signing", {"previous": None}, "current", settings)
        self.signing.grant_read(functions["KycDecided"])
        description = settings.kyc.to_json(
            secret_id=self.credentials.secret_arn, runbook=f"{settings.runbooks}/kyc-outage.md"
        )
        functions["VerifyKyc"].add_environment("KYC", description)
        functions["KycDecided"].add_environment("KYC_SIGNING_SECRET", self.signing.secret_arn)
        # Anybody may call it: whoever has not signed gets no further than the signature.
        self.webhook = functions["KycDecided"].add_function_url(auth_type=lambda_.FunctionUrlAuthType.NONE)

    def watch(self, paging: Paging) -> None:
        """Alarm while the circuit is open, and on whatever gives payments back or confuses their verdicts."""
        paging.alarm(
            "KycCircuitOpen",
            settlement_metric("KycCircuitOpen", statistic="Maximum").with_(period=Duration.minutes(1)),
            "The KYC provider is unavailable: settlements are given back.",
            # The last that was heard holds until there is news: with the next call that is answered.
            missing=cloudwatch.TreatMissingData.IGNORE,
        )
        paging.alarm(
            "KycRequestRefused",
            settlement_metric("KycRequestRefused"),
            "The KYC provider refuses requests, perhaps the API key.",
            threshold=3,
        )
        paging.alarm(
            "KycSecretUnreadable",
            settlement_metric("KycSecretUnreadable"),
            "A secret shared with the KYC provider cannot be read.",
        )
        paging.alarm(
            "KycVerdictConflict",
            settlement_metric("KycVerdictConflict"),
            "The KYC provider contradicts a verdict that is on record.",
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
        secret.apply_removal_policy(RemovalPolicy.RETAIN if settings.keeps_data else RemovalPolicy.DESTROY)
        # Not by its Ref, which is the ARN on AWS, but on the embedded AWS the name.
        return secretsmanager.Secret.from_secret_complete_arn(self, f"{construct_id}Arn", secret.attr_id)
