from typing import Any

from infra.config import STAGES
from tests.infra.stack import PAYING, READING, RUNNING, each_stage, readable
from tests.world import templates
from tests.world.rooms import is_there

CONTRACT: dict[str, Any] = {
    "TableName": "${LedgerTable}",
    "SettlementExpressArn": "${SettlementExpress}",
    "SettlementStandardArn": "${SettlementStandard}",
    "CompensationArn": "${Compensation}",
    "EventBusName": "${PagerBus}",  # another stack's rule needs the name, not the ARN
    "PagerTopicArn": "${PagerTopic}",  # what pages a person at once
    "MorningTopicArn": "${PagerMorningTopic}",
    "InformationTopicArn": "${PagerInformationTopic}",
    "KycWebhookUrl": "${KycDecidedFunctionUrl.FunctionUrl}",
    # The attribute, because its Ref is the ARN on AWS, but the name on the embedded AWS.
    "KycCredentialsArn": "${KycCredentials.Id}",
    "KycSigningArn": "${KycSigning.Id}",
    "RowKeyArns": "${RowKeysSecret1.Id}",
    "OrdersUrl": "${OrdersApi.ApiEndpoint}",
    "SettlementsApiUrl": "${SettlementsApi.ApiEndpoint}",
    "ReaderPolicyArn": "${SettlementsReader}",
    # Crossed, upstream services would send payments to a queue that no function reads.
    "OutcomeBusName": "${OutcomesBus}",
    "EventsPutAsideQueueUrl": "${OutcomesPutAside}",
    "EventsGivenUpQueueUrl": "${OutcomesGivenUp}",
    "JournalBucket": "${JournalBucket}",
    "JournalGivenUpQueueUrl": "${JournalGivenUp}",
    "ViewerPolicyArn": "${PeopleViewer}",
    "OperatorPolicyArn": "${PeopleOperator}",
    "ApproverPolicyArn": "${PeopleApprover}",
    "BreakGlassPolicyArn": "${PeopleBreakGlass}",
}
if is_there("doors"):
    CONTRACT |= {
        "StarterPolicyArn": "${SettlementsStarter}",
        "StartQueueUrl": "${StartQueue}",
        "StartDeadLetterQueueUrl": "${StartDeadLetters}",
    }
OF_PAYOUTS = {
    "PayerPolicyArn": "${SettlementsPayer}",
    "PayoutMachineArn": "${PayOut}",
    "BankWebhookUrl": "${BankEventsFunctionUrl.FunctionUrl}",
    "BankCredentialsArn": "${PayoutsCredentials.Id}",
    "BankSigningArn": "${PayoutsSigning.Id}",
}
if is_there("merchants"):
    CONTRACT |= {"SweepsGivenUpQueueUrl": "${MerchantsGivenUp}"}


def contract(stage: str) -> dict[str, Any]:
    ordered = {"OrderedTopicArn": "${OutcomesOrdered}"} if STAGES[stage].ordered_events else {}
    tried = {} if STAGES[stage].must_reach_people else {"AcceptancePolicyArn": "${AcceptancePolicy}"}
    bank = {"StatementsBucket": "${BankStatements}"} if stage in READING else {}
    payouts = OF_PAYOUTS if stage in PAYING else {}
    runs = {"PayRunsBucket": "${PayRunsFiles}"} if stage in RUNNING else {}
    return CONTRACT | ordered | tried | bank | payouts | runs | {"StageConfig": STAGES[stage].stage_config}


@each_stage
def test_the_outputs_equal_the_contract_without_account_wide_names(stage: str) -> None:
    found = readable(templates.template(stage)["Outputs"])

    assert found == {name: {"Value": value} for name, value in contract(stage).items()}
