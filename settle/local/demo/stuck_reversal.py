import json
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from settle.accounts.accounts import open_account
from settle.exit_codes import CommandFailed, Exit
from settle.orders import limbo
from settle.orders.resolution import resolve
from settle.orders.reversal import reverse
from settle.output.console import note
from settle.settlements import settlement
from settle.settlements.machines import Machine
from settle.settlements.start import start
from settle.stack import Stack
from settlement.core.model.orders import Decision
from settlement.proof import table_scan

ALERT_SECONDS_MAX = 180
TOPICS = ("PagerTopicArn", "InformationTopicArn")

REASON = "the payee is insolvent, approved by finance"


def walk(stack: Stack, report: Callable[[str], None]) -> dict[str, Any]:
    run = secrets.token_hex(3)
    payer, payee, shop = (f"{name}.{run}" for name in ("gina", "hugo", "shop"))
    key = f"demo-stuck-{run}"
    report("stuck reversal: a payment, which its payee spends")
    for account, deposit in ((payer, "100.00"), (payee, "0"), (shop, "0")):
        open_account(stack, account, "EUR", deposit)
    _settle(stack, key, payer, payee, "48.20")
    _settle(stack, f"demo-spent-{run}", payee, shop, "40.00")
    conserved = [table_scan.check(stack.store).conserved]
    with pager(stack) as receive:
        report("stuck reversal: the payment is reversed, and on call is alerted")
        reverse(stack, key, "the goods came back")
        alert = receive(f"{key} is in LIMBO since")
        shown = limbo.show(stack, key)
        conserved.append(table_scan.check(stack.store).conserved)
        report("stuck reversal: the loss is written off")
        resolve(stack, key, Decision.WRITE_OFF, REASON)
        notice = receive(f"{key} is out of LIMBO")
    conserved.append(table_scan.check(stack.store).conserved)
    return {
        "alert": alert,
        "case": shown,
        "decided": stack.command("limbo resolve", key, Decision.WRITE_OFF, reason=REASON),
        "notice": notice,
        "settlement": settlement.describe(stack, key),
        "conserved": all(conserved),
    }


@contextmanager
def pager(stack: Stack) -> Iterator[Callable[[str], dict[str, Any]]]:
    with messages(stack) as received:

        def receive(text: str) -> dict[str, Any]:
            give_up_at = time.monotonic() + ALERT_SECONDS_MAX
            while time.monotonic() < give_up_at:
                for message in received():
                    found: dict[str, Any] = json.loads(message["Message"].rpartition("\n")[2])
                    if text in found["summary"]:
                        return found
            raise CommandFailed(Exit.FAILED, f"no alert with {text!r} came within {ALERT_SECONDS_MAX} s")

        yield receive


@contextmanager
def messages(
    stack: Stack, topics: Sequence[str] | None = None
) -> Iterator[Callable[[], Iterator[dict[str, str]]]]:
    """Yield a function that receives topics' messages.

    A message has a `Subject`, and a `Message` with JSON as last line. Removes queue and subscriptions at the
    end.
    """
    sqs, sns = stack.client("sqs"), stack.client("sns")
    topics = topics or [stack.outputs[output] for output in TOPICS]
    queue = sqs.create_queue(QueueName=f"{stack.service}-pager-{secrets.token_hex(4)}")["QueueUrl"]
    attributes = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]
    policy = {
        "Version": "2012-10-17",
        "Statement": {
            "Effect": "Allow",
            "Principal": {"Service": "sns.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": attributes["QueueArn"],
            "Condition": {"ArnEquals": {"aws:SourceArn": topics}},
        },
    }
    subscriptions: list[str] = []

    def received() -> Iterator[dict[str, str]]:
        for message in sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5).get("Messages", []):
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
            yield json.loads(message["Body"])

    try:
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": json.dumps(policy)})
        for topic in topics:
            asked = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": attributes["QueueArn"]}
            subscriptions.append(sns.subscribe(**asked, ReturnSubscriptionArn=True)["SubscriptionArn"])
        yield received
    finally:
        for subscription in subscriptions:
            _clean_up(subscription, lambda arn: sns.unsubscribe(SubscriptionArn=arn))
        _clean_up(queue, lambda url: sqs.delete_queue(QueueUrl=url))


def _clean_up(name: str, remove: Callable[[str], Any]) -> None:
    try:
        remove(name)
    except (BotoCoreError, ClientError) as failure:
        note(f"left behind: {name}: {failure}")


def _settle(stack: Stack, key: str, payer: str, payee: str, amount: str) -> None:
    request = {"key": key, "payer": payer, "payee": payee, "amount": amount, "currency": "EUR"}
    ended = start(stack, Machine.EXPRESS, json.dumps(request))
    if not ended.outcome or ended.outcome["status"] != "SETTLED":
        raise CommandFailed(Exit.FAILED, f"{key}: {ended.describe()}")
