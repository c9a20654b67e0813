import os

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from settlement.aws.clients import LazyClient
from settlement.core.model.errors import PageUnavailable
from settlement.paging.page import Page

_client = LazyClient(
    "sns", Config(connect_timeout=1, read_timeout=2, retries={"mode": "standard", "total_max_attempts": 2})
)


def publish(page: Page) -> None:
    """Publish on the topic of the page's urgency. Raises PageUnavailable without SNS's confirmation."""
    topic = os.environ["PAGE_TOPIC" if page.is_urgent else "INFORMATION_TOPIC"]
    try:
        _client.publish(TopicArn=topic, Subject=page.subject, Message=page.text)
    except (ClientError, BotoCoreError) as error:
        raise PageUnavailable(f"page: not published: {type(error).__name__}") from None
