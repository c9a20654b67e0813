"""Deploys two sagas in a stack each, because a stack has at most 500 resources, and a saga some 310."""

import aws_cdk as cdk
from settlement_saga import SettlementSaga, dev

app = cdk.App()
for tenant in ("north", "south"):
    stack = cdk.Stack(app, f"Payments-{tenant}")
    settings = dev(stage=tenant, currencies=["EUR"], kyc_url="https://kyc.example.com")
    SettlementSaga(stack, "Saga", settings=settings)
app.synth()
