"""The TypeScript client, built as for its callers."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.world.pages import PROJECT

CLIENT = PROJECT / "clients" / "typescript"
NAME = "@settlement-saga/client"
NODE = Path(sys.executable).with_name("node")
MODULES = PROJECT / "node_modules"
_TSC = MODULES / "typescript" / "bin" / "tsc"


def node(*words: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(NODE), *map(str, words)],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def build(folder: Path) -> Path:
    """Return the compiled package, which scripts in `folder` may import."""
    package, modules = folder / "package", folder / "node_modules"
    compiled = node(_TSC, "--project", CLIENT, "--outDir", package / "dist", cwd=CLIENT)
    assert compiled.returncode == 0, compiled.stdout
    for name in ("package.json", "README.md"):
        shutil.copy(CLIENT / name, package)
    (modules / NAME).parent.mkdir(parents=True)
    (modules / NAME).symlink_to(package)
    (modules / "aws4fetch").symlink_to(MODULES / "aws4fetch")
    return package


def compile_block(text: str, folder: Path) -> Path:
    """Return a page's example as JavaScript, compiled against the client's sources."""
    (folder / "block.mts").write_text(text)
    options = {
        "declaration": False,
        "noUnusedLocals": False,
        "outDir": str(folder / "compiled"),
        "paths": {NAME: [str(CLIENT / "src" / "index.ts")]},
        "rootDir": "/",
        "typeRoots": [str(MODULES / "@types")],
    }
    config = {
        "extends": str(CLIENT / "tsconfig.json"),
        "files": ["block.mts"],
        "include": [],
        "compilerOptions": options,
    }
    (folder / "tsconfig.json").write_text(json.dumps(config))
    compiled = node(_TSC, "--project", folder, cwd=folder)
    assert compiled.returncode == 0, compiled.stdout
    (built,) = (folder / "compiled").rglob("block.mjs")
    return Path(shutil.move(built, folder / "block.mjs"))
