"""The CDK app: `cdk deploy -c stage=<stage>`, with `-c kyc_url=<address>` where the settings name none.

`-c webhook=http-api` is for an account in which public function URLs are forbidden.
So it is with `page_address`, `notice_address`, `finance_address` and `runbooks`.
"""

import aws_cdk as cdk

from infra.config import CONTEXT, settings_of
from infra.settlement_stack import SettlementStack


def build(app: cdk.App) -> SettlementStack:
    """Add the stack of the context's `stage` to the app. Offline: no lookups, credentials, Docker or git."""
    try:
        settings = settings_of({name: app.node.try_get_context(name) for name in CONTEXT})
    except ValueError as wrong:
        raise SystemExit(str(wrong)) from None
    # The embedded AWS enforces IAM, and there the default synthesizer's roles may not use the staging bucket.
    synthesizer = cdk.CliCredentialsStackSynthesizer() if settings.is_embedded else None
    return SettlementStack(app, settings=settings, synthesizer=synthesizer)


if __name__ == "__main__":
    app = cdk.App()
    build(app)
    app.synth()
