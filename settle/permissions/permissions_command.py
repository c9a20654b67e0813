from typing import Annotated

import typer

from settle.commands.options import AsJson, StackName, find
from settle.permissions import permissions_output
from settle.permissions.people import Kind


def permissions(
    as_kind: Annotated[
        Kind | None, typer.Option("--as", help="Print the policy of one kind: its ARN, and its document.")
    ] = None,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Show each kind of people's permissions, from the stack's managed policies.

    Example: settle permissions --as operator --stack settlement-prod
    """
    from settle.permissions import permissions as deployed

    target = find(stack)
    if as_kind:
        permissions_output.policy(deployed.policy(target, as_kind), as_json)
    else:
        permissions_output.permissions(deployed.kinds(target), as_json)
