"""The kinds of people that work with a stack."""

from enum import StrEnum


class Kind(StrEnum):
    """The kinds of people that a stack has a managed policy for."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    BREAK_GLASS = "break-glass"

    @property
    def output(self) -> str:
        """The stack's output with the ARN of the policy."""
        return f"{self.title().replace('-', '')}PolicyArn"
