"""Proposes a checked spreadsheet as a pay run."""

from typing import Any

from botocore.exceptions import ClientError

from settle.exit_codes import CommandFailed, Exit
from settle.order import give
from settle.payruns import on_record
from settle.payruns.checking import Checked
from settle.stack import Stack
from settlement.payruns import bucket

_THERE = "PreconditionFailed"

_CONFLICT = "ConditionalRequestConflict"
"""S3's answer while another command puts the name."""


def propose(stack: Stack, checked: Checked, reason: str) -> dict[str, Any]:
    """Upload the file, and propose the run; return it as recorded. Safe to repeat. Raises CommandFailed."""
    header, content = checked.file.header, checked.file.content
    try:
        stack.client("s3").put_object(
            Bucket=stack.outputs["PayRunsBucket"],
            Key=bucket.name_of(checked.digest),
            Body=content,
            IfNoneMatch="*",
        )
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code == _CONFLICT:
            raise CommandFailed(Exit.FAILED, "file: another command puts it now; repeat this one") from error
        if code != _THERE:
            raise
    sums = on_record.sums_of(stack, f"PAYRUN#{checked.run}", checked.file.sums(stack.config))
    order = {
        "digest": checked.digest,
        "name": header.name,
        "kind": header.kind.value,
        "payer": header.payer,
        "lines": len(checked.file.lines),
        "sums": sums,
        "reason": reason,
        **({} if header.parent is None else {"parent": header.parent}),
    }
    give(stack, "propose-payrun", order)
    one = on_record.of(stack, checked.run)
    return on_record.shown(stack, one, on_record.file_of(stack, one.proposal))
