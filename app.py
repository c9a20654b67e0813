"""The CDK app: `cdk deploy -c stage=<stage>`, with `-c kyc_url=<address>` where the settings name none.

`-c webhook=http-api` is for an account in which public function URLs are forbidden.
So it is with `page_address`, `notice_address` and `runbooks`.
"""

from dataclasses import replace

import aws_cdk as cdk

from infra.config import STAGES
from infra.kyc_config import NOT_NAMED
from infra.settlement_stack import SettlementStack


def build(app: cdk.App) -> SettlementStack:
    """Add the stack of the context's `stage` to the app. Offline: no lookups, credentials, Docker or git."""
    stage = app.node.try_get_context("stage")
    if stage not in STAGES:
        raise SystemExit(f"stage: must be one of {', '.join(STAGES)}; pass it as -c stage=<stage>")
    settings = STAGES[stage]
    if kyc_url := app.node.try_get_context("kyc_url"):
        settings = replace(settings, kyc=replace(settings.kyc, url=kyc_url))
    if webhook := app.node.try_get_context("webhook"):
        settings = replace(settings, webhook=webhook)
    for name in ("page_address", "notice_address", "runbooks"):
        if given := app.node.try_get_context(name):
            settings = replace(settings, **{name: given})
    if settings.kyc.url == NOT_NAMED:
        raise SystemExit("kyc_url: name the KYC provider's address; pass it as -c kyc_url=https://<host>")
    try:
        settings.ensure_reaches_people()
    except ValueError as unreachable:
        raise SystemExit(str(unreachable)) from None
    # The embedded AWS enforces IAM, and there the default synthesizer's roles may not use the staging bucket.
    synthesizer = cdk.CliCredentialsStackSynthesizer() if settings.is_embedded else None
    return SettlementStack(app, settings=settings, synthesizer=synthesizer)


if __name__ == "__main__":
    app = cdk.App()
    build(app)
    app.synth()
