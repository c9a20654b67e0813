import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from settlement_saga import SettlementSaga, dev

app = cdk.App()
stack = cdk.Stack(app, "Payments")
saga = SettlementSaga(
    stack, "Saga", settings=dev(stage="shop", currencies=["EUR"], kyc_url="https://kyc.example.com")
)
shop = iam.Role(stack, "Shop", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
saga.grant_start(shop)
app.synth()
