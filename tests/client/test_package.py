import ast
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from packaging.requirements import Requirement

import settlement_client
from tests.world.templates import PROJECT

CLIENT = PROJECT / "clients" / "python"
MANIFEST = tomllib.loads((CLIENT / "pyproject.toml").read_text())
MODULES = sorted((CLIENT / "settlement_client").glob("*.py"))
ALONE = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"settlement", "settle", "infra", "handlers", "aws_cdk"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocker())
import settlement_client
print(settlement_client.mint_key("order"))
"""


def imported(module: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            names |= {one.name.partition(".")[0] for one in node.names}
        if isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    return names


def test_the_client_imports_only_boto3_the_standard_library_and_itself() -> None:
    found = set().union(*map(imported, MODULES))

    assert found - {*sys.stdlib_module_names} == {"boto3", "botocore", "settlement_client"}


def test_the_client_works_without_the_stacks_own_code() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", ALONE],
        cwd=CLIENT,
        env={"PYTHONPATH": str(CLIENT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout.startswith("order-")


def test_the_client_requires_only_a_range_of_boto3() -> None:
    pins = (PROJECT / "requirements.txt").read_text().split()
    (tested,) = (line.removeprefix("boto3==") for line in pins if line.startswith("boto3=="))

    (needed,) = MANIFEST["project"]["dependencies"]
    boto3 = Requirement(needed)

    assert boto3.name == "boto3"
    assert {each.operator for each in boto3.specifier} == {">=", "<"}
    assert boto3.specifier.contains(tested)
    assert not boto3.specifier.contains("2.0.0")
    assert MANIFEST["project"]["license"] == "Apache-2.0"


def test_the_wheel_contains_the_modules_and_the_type_marker(tmp_path: Path) -> None:
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    finished = subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)],
        cwd=CLIENT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name in finished.stdout
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info" not in name}
    assert packed == {f"settlement_client/{module.name}" for module in MODULES} | {
        "settlement_client/py.typed"
    }


def test_the_clients_modules_are_small_and_its_exported_names_exist() -> None:
    assert [module.name for module in MODULES if len(module.read_text().splitlines()) > 150] == []
    assert all(hasattr(settlement_client, name) for name in settlement_client.__all__)
