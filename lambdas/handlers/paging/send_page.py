"""Page people about an event on the stage's bus, with the next command."""

from typing import Any

from handlers import _dependencies  # noqa: F401 (freezes imported objects for the collector)
from settlement.core.telemetry import about, observed
from settlement.paging import topics
from settlement.paging.page import page_of


@observed("page")
def handler(event: dict[str, Any], context: object) -> None:
    """Publish the page. Raises PageUnavailable; Lambda then calls twice more.

    A duplicate page is better than a lost one.
    """
    detail = event.get("detail")
    about(detail.get("key") if isinstance(detail, dict) else None)
    topics.publish(page_of(event))
