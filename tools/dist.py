"""Build a release into dist/: the source distribution, the wheel, the bill of materials and their digests.

Both distributions are built twice, and must be equal byte for byte: any build of a tag is the published one.
"""

import argparse
import hashlib
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1]
DIST = PROJECT / "dist"
_BUILD = (
    "import sys; from hatchling.build import build_sdist, build_wheel; "
    "print({'sdist': build_sdist, 'wheel': build_wheel}[sys.argv[1]](sys.argv[2]))"
)


def build(folder: Path, sources: Path = PROJECT) -> Path:
    """Build both distributions into a folder; return the wheel, built from the source distribution."""
    _run("sdist", sources, folder)
    (archive,) = folder.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as source, tarfile.open(archive) as packed:
        unpack(packed, Path(source))
        _run("wheel", Path(source, archive.name.removesuffix(".tar.gz")), folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def unpack(packed: tarfile.TarFile, folder: Path) -> None:
    """Unpack an archive with the filter `data`, if Python has it (3.11.4 and later)."""
    packed.extraction_filter = getattr(tarfile, "data_filter", None)
    packed.extractall(folder)  # noqa: S202 - our own archives


def _run(kind: str, source: Path, folder: Path) -> None:
    subprocess.run([sys.executable, "-c", _BUILD, kind, str(folder)], cwd=source, check=True)


def main() -> None:
    """Build a release. Raises SystemExit if the builds differ, or for another version than the project's."""
    parser = argparse.ArgumentParser(prog="make dist", description=__doc__)
    parser.add_argument("--version", help="the version that the tag names")
    wanted = parser.parse_args().version
    version = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    if wanted not in (None, version):
        raise SystemExit(f"version: the tag names {wanted}, and pyproject.toml {version}")
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        digests = [_digests(build(Path(folder)).parent) for folder in (first, second)]
        if digests[0] != digests[1]:
            raise SystemExit(f"two builds differ: {digests[0]} and {digests[1]}")
        DIST.mkdir(exist_ok=True)
        for name in digests[0]:
            (DIST / name).write_bytes(Path(first, name).read_bytes())
    bill = ("requirements", "requirements.txt", "--pyproject", "pyproject.toml", "--output-reproducible")
    to = ("--output-format", "JSON", "--output-file", str(DIST / f"settlement_saga-{version}.cdx.json"))
    subprocess.run([PROJECT / ".venv-release/bin/cyclonedx-py", *bill, *to], cwd=PROJECT, check=True)
    lines = [f"{digest}  {name}\n" for name, digest in sorted(_digests(DIST).items()) if name != "SHA256SUMS"]
    (DIST / "SHA256SUMS").write_text("".join(lines))
    print("".join(lines), end="")


def _digests(folder: Path) -> dict[str, str]:
    return {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in folder.iterdir()}


if __name__ == "__main__":
    main()
