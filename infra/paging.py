"""The pages to people: their addresses."""

from dataclasses import dataclass

from infra.settings import CoreSettings


@dataclass(frozen=True, kw_only=True)
class PagingSettings(CoreSettings):
    """The addresses of people.

    `page_address` (mail or HTTPS) gets what pages a person at once, and `notice_address` the rest; a stage
    that `must_reach_people` is not built without the first, and without runbooks at an HTTPS address: see
    docs/decisions/2026-11-22-pages.md.
    """

    page_address: str | None = None
    notice_address: str | None = None
    must_reach_people: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_address("page_address", "notice_address")

    def ensure_reaches_people(self) -> None:
        """Demand that a page reaches a person, with a runbook. Raises ValueError, naming the setting."""
        if not self.must_reach_people:
            return
        if self.page_address is None:
            raise ValueError(
                "page_address: name the address that is paged; pass it as -c page_address=oncall@<host>"
            )
        if not self.runbooks.startswith("https://"):
            raise ValueError(
                "runbooks: name the HTTPS address of your runbooks; pass it as -c runbooks=https://<host>"
            )
