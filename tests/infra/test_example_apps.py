"""The apps of `examples/app` synthesise; `make consume` deploys them from the wheel."""

import runpy
import sys

import aws_cdk as cdk
import pytest

import infra
from tests.world.templates import PROJECT

FOLDER = PROJECT / "examples/app"
APPS = (FOLDER / "app.py", FOLDER / "two.py")


@pytest.mark.parametrize("app", APPS, ids=lambda app: app.name)
def test_an_example_app_synthesises(app, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    made = list[cdk.cx_api.CloudAssembly]()
    synth = cdk.App.synth
    monkeypatch.setitem(sys.modules, "settlement_saga", infra)
    monkeypatch.setattr(cdk.App, "synth", lambda app, **options: made.append(synth(app, **options)))

    runpy.run_path(str(app))

    (assembly,) = made
    outputs = [stack.template["Outputs"] for stack in assembly.stacks]
    assert all("SagaTableName" in found for found in outputs)


def test_an_example_apps_own_tests_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "settlement_saga", infra)

    assert pytest.main(["-q", "-p", "no:cacheprovider", "-c", "/dev/null", str(FOLDER)]) == 0


def test_the_documentation_page_shows_the_example_app_unchanged() -> None:
    page = (PROJECT / "docs/operating/own-app.md").read_text()

    assert f"```python\n{(PROJECT / 'examples/app/app.py').read_text()}```" in page
