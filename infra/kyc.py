from dataclasses import dataclass, field
from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct

from .core import IN_LIMBO, Added, Core, Room
from .grants import EVIDENCE, SETTLEMENT, Handler, allow
from .kyc_config import SCREENS_BY_NAME, KycSettings
from .pager import Pager
from .shared_secrets import let_read, new_secret
from .urgency import Urgency
from .webhook import Receiver, Webhook, WebhookSettings

HEALTH = {"check": "health"}
"""Event of a health check, for `handlers/kyc/verify_kyc.py`."""

_REVIEW_SECONDS = 3600
"""How long before a review's end an alarm warns: `REVIEW_ENDS_WITHIN` of RecoverStalled."""

_SHOWN = (
    *("KycUnavailable", "KycCircuitOpen", "KycRequestRefused", "KycRejected", "KycReview"),
    *("KycVerdictConflict", "KycSecretUnreadable", "SignatureRefused", "KycCircuitClockAhead"),
)

_REST_SECONDS = 3
"""Time that VerifyKyc needs besides the exchange, for its secret and DynamoDB.

It sends a request only if two of these seconds remain afterwards (`RESERVED_SECONDS`).
"""


@dataclass(frozen=True, kw_only=True)
class KycRoomSettings(WebhookSettings):
    kyc: KycSettings = field(default_factory=KycSettings)
    party_names: str = "optional"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.party_names not in ("required", "optional"):
            raise ValueError("party_names: must be required or optional")
        seconds = self.function_timeout_seconds * self.timeout_factor
        if self.kyc.exchange_seconds + _REST_SECONDS > seconds:
            raise ValueError(
                f"kyc: both timeouts must leave {_REST_SECONDS} s of the function's timeout for the rest"
            )
        if not (self.kyc.is_secure or self.is_embedded):
            raise ValueError("kyc_url: must be an HTTPS address")
        if self.kyc.provider in SCREENS_BY_NAME and self.party_names != "required":
            raise ValueError(
                f"party_names: must be required with the KYC provider {self.kyc.provider}, which screens"
                " by name: an account id matches no list, and would be approved"
            )

    def rules(self) -> dict[str, Any]:
        return super().rules() | {"party_names": self.party_names}


class Kyc(Construct):
    """The webhook, and the provider's secrets. One function can read each secret.

    A new stage's secrets are random. The provider refuses requests until an operator stores its API key.
    """

    def __init__(self, core: Core, settings: KycRoomSettings) -> None:
        super().__init__(core.scope, "Kyc")
        functions, pager = core.functions, core.pager
        verify, webhook = functions["VerifyKyc"], functions["KycDecided"]
        self.credentials = new_secret(self, "Credentials", {}, "api_key", settings)
        let_read(verify, self.credentials)
        self.signing = new_secret(self, "Signing", {"previous": None}, "current", settings)
        let_read(webhook, self.signing)
        description = settings.kyc.to_json(
            secret_id=self.credentials.secret_arn, runbook=f"{settings.runbooks}/kyc-outage.md"
        )
        verify.add_environment("KYC", description)
        verify.add_environment("EVENT_BUS", pager.bus.event_bus_name)
        pager.bus.grant_put_events_to(verify)
        if settings.kyc.health_path:
            self._check_health(verify)
        webhook.add_environment("KYC_SIGNING_SECRET", self.signing.secret_arn)
        self.webhook = Webhook(
            self,
            "Webhook",
            receiver=Receiver(
                function=webhook,
                name="webhook",
                path="/",
                alarm="WebhookRefused",
                described="The webhook refuses many calls: a wrong secret, or strangers.",
            ),
            pager=pager,
            settings=settings,
        )
        _add_alarms(pager)
        if settings.kyc.review_seconds > _REVIEW_SECONDS:  # a shorter review would alert from its start
            pager.level("ReviewsEnding", "ReviewsEnding", "A review ends within the hour, and is reversed.")

    def _check_health(self, verify: lambda_.Function) -> None:
        """Call VerifyKyc each minute, so that an open circuit can close without a payment.

        Only VerifyKyc reaches the provider.
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


def _add_alarms(pager: Pager) -> None:
    pager.alarm(
        "KycCircuitOpen",
        pager.metric("KycCircuit", statistic="Maximum").with_(period=Duration.minutes(1)),
        "The KYC provider is unavailable: settlements are compensated.",
        # The circuit writes its metric when it changes. Until then the alarm keeps its state.
        missing=cloudwatch.TreatMissingData.IGNORE,
        # The payments are reversed, and the circuit closes automatically.
        urgency=Urgency.INFORMATION,
    )
    pager.alarm(
        "KycRequestRefused",
        pager.metric("KycRequestRefused"),
        "The KYC provider refuses requests: the API key may be wrong.",
        threshold=3,
        urgency=Urgency.MORNING,
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
        urgency=Urgency.MORNING,
    )
    pager.alarm(
        "SignatureRefused",
        pager.metric("SignatureRefused"),
        "Calls of the webhook have no valid signature: the provider has another secret, or a stranger calls.",
        threshold=5,
        urgency=Urgency.MORNING,
    )


def build(core: Core, settings: KycRoomSettings) -> Added:
    core.let_ask_recovery(core.functions["KycDecided"])
    part = Kyc(core, settings)
    return Added(
        outputs={
            "KycWebhookUrl": part.webhook.url,
            "KycCredentialsArn": part.credentials.secret_arn,
            "KycSigningArn": part.signing.secret_arn,
        },
        graphs={
            "ages": {IN_LIMBO: core.pager.levels("ReviewsEnding")},
            "kyc": {
                "KYC circuit, 1 while it is open": core.pager.levels("KycCircuit"),
                "KYC answers": core.pager.metrics(*_SHOWN),
                "Calls that the webhook refused": [part.webhook.refused],
            },
        },
        tries=[allow("Signing", ["secretsmanager:GetSecretValue"], [part.signing.secret_arn])],
    )


ROOM = Room(
    build=build,
    handlers={
        "KycDecided": Handler(
            rows={"GetItem": (SETTLEMENT,), "Put": (EVIDENCE, "KYC_EVENT#*"), "Update": (SETTLEMENT,)},
            names=("hold_at", "verify_at"),
            by_http=True,
            failure=Urgency.MORNING,
        ),
    },
    orders={"probe": "operator"},
)
