import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clients.conformance import server
from tests.world.pages import PROJECT
from tests.world.typescript import CLIENT, NODE, build, compile_block, node

MANIFEST: dict[str, Any] = json.loads((CLIENT / "package.json").read_text())
LOCK: dict[str, Any] = json.loads((CLIENT / "package-lock.json").read_text())
GENERATED = CLIENT / "src" / "generated"
SOURCES = sorted({*(CLIENT / "src").rglob("*.ts"), *(CLIENT / "test").glob("*.ts")} - {*GENERATED.iterdir()})


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("typescript"))


def test_the_typescript_client_passes_the_shared_table_and_its_tests(package: Path) -> None:
    files = sorted((package / "dist" / "test").glob("*.test.js"))

    ran = node(
        "--test",
        "--test-reporter=tap",
        *files,
        cwd=package,
        CONFORMANCE_SERVER=server.__file__,
        PYTHON=sys.executable,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    passed = {*re.findall(r"^ok \d+ - the table: (.+)$", ran.stdout, re.MULTILINE)}
    assert passed == {*server.cases()}
    assert len(files) == len(list((CLIENT / "test").glob("*.test.ts")))


def test_the_typescript_types_are_those_generated_from_the_contracts(tmp_path: Path) -> None:
    made = node(CLIENT / "generate.mjs", tmp_path, cwd=CLIENT)

    assert made.returncode == 0, made.stderr
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        file.name: file.read_text() for file in GENERATED.iterdir()
    }


def test_the_typescript_client_needs_one_package_and_pins_its_tools() -> None:
    tools = json.loads((PROJECT / "package.json").read_text())["devDependencies"]
    locked = json.loads((PROJECT / "package-lock.json").read_text())["packages"]
    own = LOCK["packages"]

    assert MANIFEST["private"] is True
    assert MANIFEST["dependencies"] == {"aws4fetch": f"^{tools['aws4fetch']}"}
    assert MANIFEST["devDependencies"].items() <= tools.items()
    assert {name: own[""][name] for name in ("dependencies", "devDependencies")} == {
        name: MANIFEST[name] for name in ("dependencies", "devDependencies")
    }
    for name in ("aws4fetch", *MANIFEST["devDependencies"]):
        assert own[f"node_modules/{name}"]["version"] == locked[f"node_modules/{name}"]["version"]


def test_the_typescript_client_imports_only_aws4fetch_node_and_itself() -> None:
    found = {name for file in SOURCES for name in re.findall(r'(?:from|import) "([^"]+)"', file.read_text())}

    assert {name for name in found if not name.startswith((".", "node:"))} == {"aws4fetch"}


def test_the_typescript_clients_modules_are_small() -> None:
    assert [file.name for file in SOURCES if len(file.read_text().splitlines()) > 200] == []


def test_the_npm_package_contains_the_modules_and_their_types(package: Path) -> None:
    npm = shutil.which("npm", path=str(NODE.parent))
    packed = subprocess.run(
        [str(npm), "pack", "--dry-run", "--json", "--ignore-scripts", "--offline"],
        cwd=package,
        env={"PATH": str(NODE.parent), "HOME": str(package)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )

    (listed,) = json.loads(packed.stdout)
    modules = {file.relative_to(CLIENT).with_suffix("") for file in (CLIENT / "src").rglob("*.ts")}
    assert {file["path"] for file in listed["files"]} == {"package.json", "README.md"} | {
        f"dist/{module}{kind}" for module in modules for kind in (".js", ".d.ts")
    }
    assert (package / MANIFEST["exports"]["."]["default"]).exists()


def test_the_first_example_of_the_readme_pays(package: Path) -> None:
    (example,) = re.findall(r"```ts\n(.*?)```", (CLIENT / "README.md").read_text(), re.DOTALL)
    # The answers are about this key.
    script = compile_block(example.replace('mintKey("order")', '"order-2026-000101"'), package.parent)
    table = server.cases()
    (started,), (read,) = table["accepted"]["exchanges"], table["finished within the wait"]["exchanges"]
    started["request"]["headers"] |= {"Prefer": "wait=20"}
    asked = table["long poll that ends"]["exchanges"][0]["request"]

    with server.serving([started, {"request": asked, "answer": read["answer"]}]) as (url, calls):
        ran = node(
            script,
            cwd=package.parent,
            SETTLEMENTS_API_URL=url,
            AWS_REGION=server.REGION,
            AWS_ACCESS_KEY_ID=server.ACCESS_KEY,
            AWS_SECRET_ACCESS_KEY=server.SECRET_KEY,
        )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == "SETTLED The payee is paid.\n"
    assert calls.faults() == []
