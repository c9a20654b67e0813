from enum import StrEnum


class Kind(StrEnum):
    """The people for whom a stack has a managed policy."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    BREAK_GLASS = "break-glass"

    @property
    def output(self) -> str:
        return f"{self.title().replace('-', '')}PolicyArn"
