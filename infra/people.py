from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from .core import Added, Core, Room
from .grants import allow, decrypt
from .orders import APPROVED, OrdersApi
from .settings import CoreSettings
from .table import INDEX, SettlementTable


def _moves(move: str) -> tuple[str, ...]:
    return tuple(f"{decision}/{move}" for decision in APPROVED)


_PEOPLE: Mapping[str, tuple[str, ...]] = {
    "viewer": (),
    "operator": (
        *("retry", "recover", "freeze"),
        *_moves("propose"),
        *_moves("withdraw"),
    ),
    "approver": (
        *("write-off", "complete", "reverse", "reverse-part"),
        *("open", "deposit", "withdraw", "unfreeze", "close"),
        *_moves("approve"),
        *_moves("withdraw"),
    ),
    "break-glass": _moves("break-glass"),
}
"""Order routes of each kind of people. Every kind may read everything.

No kind may both propose and approve. Doing both takes two roles, even for a person with two sessions. An
operator may retry, stop an account, and give orders that move no money. Only an approver lets an account pay
again. Both may withdraw a proposal.
"""

POLICIES = {kind: kind.title().replace("-", "") for kind in _PEOPLE}
"""Names by kind, in the policy `People<name>` and its output `<name>PolicyArn`."""


def people(of_rooms: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    return {
        kind: (*routes, *(order for order, who in of_rooms.items() if who == kind))
        for kind, routes in _PEOPLE.items()
    }


_TABLE_READS = ("BatchGetItem", "DescribeTable", "GetItem", "Query", "Scan")


class People(Construct):
    """Managed policies. CloudFormation names them: a fixed name would prevent a second region."""

    def __init__(self, core: Core, *, orders: OrdersApi, reads: Sequence[dict[str, Any]]) -> None:
        super().__init__(core.scope, "People")
        reads = [*reads, *self._of_the_stack()]
        self.policies = {
            kind: iam.CfnManagedPolicy(
                self,
                POLICIES[kind],
                description=f"What a person may do with the settlement stack: {kind}",
                policy_document={
                    "Version": "2012-10-17",
                    "Statement": by_sid([*reads, *self._orders(orders, routes), *_lets(core, kind)]),
                },
            )
            for kind, routes in people(core.orders).items()
        }

    @property
    def outputs(self) -> dict[str, str]:
        return {f"{POLICIES[kind]}PolicyArn": policy.ref for kind, policy in self.policies.items()}

    def _orders(self, orders: OrdersApi, routes: Sequence[str]) -> list[dict[str, Any]]:
        arns = [orders.order(route) for route in routes]
        return [allow("Orders", ["execute-api:Invoke"], arns)] if arns else []

    def _of_the_stack(self) -> list[dict[str, Any]]:
        """Allow reading the stack's outputs and these policies.

        IAM sees a stack requested by name as `stack/NAME/*`, without its id.
        """
        stack = Stack.of(self)
        itself = stack.format_arn(
            service="cloudformation", resource="stack", resource_name=f"{stack.stack_name}/*"
        )
        policies = stack.format_arn(
            service="iam", region="", resource="policy", resource_name=f"{stack.stack_name}-*"
        )
        return [
            allow("Outputs", ["cloudformation:DescribeStacks"], [itself]),
            allow("Policies", ["iam:GetPolicy", "iam:GetPolicyVersion"], [policies]),
        ]


def _lets(core: Core, kind: str) -> list[dict[str, Any]]:
    return [one for added in core.added for one in added.lets.get(kind, ())]


def _reads_of(ledger: SettlementTable) -> list[dict[str, Any]]:
    table = ledger.table.table_arn
    return [
        allow("Table", [f"dynamodb:{action}" for action in _TABLE_READS], [table]),
        allow("Index", ["dynamodb:Query"], [f"{table}/index/{INDEX}"]),
        decrypt("TableKey", ledger.key.key_arn, "dynamodb", Stack.of(ledger).region),
    ]


def by_sid(statements: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort statements. A policy must not depend on the order of rooms."""
    return sorted(statements, key=lambda one: str(one["Sid"]))


def build(core: Core, _: CoreSettings) -> Added:
    machines = [one.executions for one in (core.standard, core.compensation)]
    reads = [
        *_reads_of(core.ledger),
        allow("Executions", ["states:DescribeExecution"], machines),
        *(one for added in core.added for one in added.reads),
    ]
    return Added(outputs=People(core, orders=core.needed(OrdersApi), reads=reads).outputs)


ROOM = Room(build=build)
