import aws_cdk as cdk

from .config import CONTEXT, settings_of
from .settlement_stack import SettlementStack


def build(app: cdk.App) -> SettlementStack:
    """Add the stack of the context's `stage`.

    It works offline, without lookups, credentials, Docker or git.
    """
    try:
        settings = settings_of({name: app.node.try_get_context(name) for name in CONTEXT})
    except ValueError as wrong:
        raise SystemExit(str(wrong)) from None
    # The embedded AWS enforces IAM, and there the default synthesizer's roles may not use the staging bucket.
    synthesizer = cdk.CliCredentialsStackSynthesizer() if settings.is_embedded else None
    return SettlementStack(app, settings=settings, synthesizer=synthesizer)


def main() -> None:
    app = cdk.App()
    build(app)
    app.synth()


if __name__ == "__main__":
    main()
