"""Compare a stack's templates before an update, with the guard of infra/preflight/guard.py.

    python tools/guard_changes.py DEPLOYED.json NEW.json

Both are CloudFormation templates in JSON; a stack that does not exist yet has `{}`.
"""

import json
import sys
from pathlib import Path

from infra.preflight.guard import faults


def main(arguments: list[str]) -> int:
    """Compare two templates. Return 0 without faults, 1 with faults, 2 if a file is not a template."""
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        deployed, new = (json.loads(Path(path).read_text()) for path in arguments)
        if not new["Resources"]:
            raise ValueError("the new template has no resources")
        found = list(faults(deployed, new))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        print(f"no template to judge: {error!r}", file=sys.stderr)
        return 2
    for fault in found:
        print(fault, file=sys.stderr)
    print(
        f"{len(found)} changes refused" if found else "the table, the keys and the journal stay as they are"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
