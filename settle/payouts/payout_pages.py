"""The console's pages of payouts. They show commands instead of giving orders."""

from collections.abc import Mapping
from typing import Any

from settle.arguments import check_key
from settle.payouts import listing
from settle.payouts.listing import Listed
from settle.payouts.payout import describe, page_of
from settle.settlements import aside
from settle.stack import Stack

LINES_MAX = 500
"""Maximum lines per list."""


def payouts(stack: Stack, _: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    cases, under_way = listing.cases(stack, LINES_MAX), listing.under_way(stack, LINES_MAX)
    every = [*cases.lines, *under_way.lines]
    return "payouts.html", {
        "cases": _readable(cases),
        "under_way": _readable(under_way),
        "unreadable": [one[aside.UNREADABLE] for one in aside.of(every)],
    }


def _readable(found: Listed) -> dict[str, Any]:
    """Drop unreadable rows, not cases with unreadable proposals."""
    return {"lines": [one for one in found.lines if one["status"] is not None], "more": found.more}


def payout(stack: Stack, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a payout's page: template and values. Raises CommandFailed, MalformedRow."""
    return page_of(describe(stack, check_key(given["key"])))


NAME = "Payouts"
PAGES = {"/payouts": payouts, "/payouts/{key}": payout}
