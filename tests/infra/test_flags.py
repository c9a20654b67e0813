import json
import tarfile
from pathlib import Path
from typing import Any

import aws_cdk

from tests.world.templates import PROJECT

OTHERWISE = {
    # The stack targets the partition that its prices belong to.
    "@aws-cdk/core:target-partitions": ["aws"],
    # AWS's statistics. The CDK's CLI reads them again at each event of a deployment: a quarter of its time.
    "@aws-cdk/core:enableAdditionalMetadataCollection": False,
}
"""Flags set against the CDK's recommendation."""


def recommended() -> dict[str, Any]:
    (library,) = (Path(aws_cdk.__file__).parent / "_jsii").glob("aws-cdk-lib@*.tgz")
    with tarfile.open(library) as archive:
        file = archive.extractfile("package/recommended-feature-flags.json")
        assert file
        found: dict[str, Any] = json.load(file)
    return found


def test_each_recommended_cdk_flag_is_set() -> None:
    """A flag that is set later changes names or defaults, and so replaces resources that hold money."""
    context = json.loads((PROJECT / "cdk.json").read_text())["context"]

    assert {name: context.get(name) for name in recommended()} == recommended() | OTHERWISE
