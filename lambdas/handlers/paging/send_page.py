"""SendPage: tell people of an event on the stage's bus, in words, with the command to type next."""

from typing import Any

from handlers import _dependencies  # noqa: F401 (it sets aside what is imported)
from settlement.core.telemetry import about, observed
from settlement.paging import topics
from settlement.paging.page import page_of


@observed("page")
def handler(event: dict[str, Any], context: object) -> None:
    """Publish the page about an event. Raises PageUnavailable: then Lambda calls again, twice.

    An event that comes twice is published twice: a page too many is better than none.
    """
    detail = event.get("detail")
    about(detail.get("key") if isinstance(detail, dict) else None)
    topics.publish(page_of(event))
