import boto3
from botocore.awsrequest import AWSRequest

from settlement_client.errors import InvalidRequest, MalformedAnswer, Unknown
from settlement_client.payout import Payout, PayoutOutcome
from settlement_client.posting import answered
from settlement_client.reading import Readers
from settlement_client.request import KEY


def pay_out(url: str, session: boto3.Session, payout: Payout, seconds: float) -> PayoutOutcome:
    """Start a payout as `Client.pay_out` does. Raises Refused, or Unknown."""

    def call() -> AWSRequest:
        return AWSRequest("POST", f"{url}/payouts", {"Content-Type": "application/json"}, payout.to_json())

    answer = answered(session, call, payout.key, seconds)
    try:
        return _about(payout.key, answer.text)
    except MalformedAnswer as failed:
        raise Unknown.of(payout.key, failed) from failed


def read(readers: Readers, key: str) -> PayoutOutcome:
    """Return a payout as it is now. Raises NotFound, or Unavailable: then ask again."""
    if not KEY.fullmatch(key):
        raise InvalidRequest(f"key: must be a string that matches ^{KEY.pattern}$")
    return _about(key, readers.asked(key, f"/payouts/{key}", {}).text)


def _about(key: str, text: str) -> PayoutOutcome:
    found = PayoutOutcome.from_json(text)
    if found.key != key:
        raise MalformedAnswer("payout.key: is not the key that was asked for")
    return found
