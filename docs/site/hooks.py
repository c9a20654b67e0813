"""The site's additions to MkDocs: pages outside `docs/`, links to code, and pages made from contracts."""

import json
import posixpath
import re
from urllib.parse import unquote, urlsplit
from xml.etree.ElementTree import Element

import mdformat
from markdown import Extension, Markdown
from markdown.treeprocessors import Treeprocessor
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.site import contracts
from docs.site.navigation import PROJECT, navigation, pages

SITE = PROJECT / "docs/site"
MERMAID = "assets/mermaid.js"
ASSETS = {
    MERMAID: "node_modules/@mermaid-js/tiny/dist/mermaid.tiny.js",
    "assets/iframe-worker.js": "node_modules/iframe-worker/shim/index.js",
}
"""Scripts of the site, by address."""

CONTRACTS = sorted(
    path for kind in ("json", "yaml") for path in (PROJECT / "docs/contracts").glob(f"*.{kind}")
)


def api_pages() -> dict[str, str]:
    """Return the API pages by path. `mkdocstrings` fills them from the code."""
    rooms = re.findall(
        r"^from (infra\.\w+) import .*?(\w+Settings)$",
        (PROJECT / "infra/config.py").read_text(),
        re.MULTILINE,
    )
    settings = [
        "config.Settings",
        "settings.StageSettings",
        "settings.CoreSettings",
        *(f"{module[6:]}.{name}" for module, name in rooms),
    ]
    stack = ["settlement_stack.SettlementStack", "rooms.ROOMS", "core.Room", "core.Core", "core.Added"]
    stage = ["config.settings_of", "config.CONTEXT", "config.STAGES"]
    return {
        "docs/reference/api-client.md": "# API: the Python client\n\n"
        "[How to use it](../../clients/python/README.md).\n\n"
        + _documented(["settlement_client"], show_root_heading=False, show_root_toc_entry=False),
        "docs/reference/api-stack.md": "# API: the stack\n\nThe construct, and the rooms it is built of. "
        "[Deploying](../operating/deploying.md) says how to use it.\n\n"
        + _documented([f"infra.{name}" for name in stack]),
        "docs/reference/api-settings.md": "# API: the settings\n\nEach class adds to `StageSettings` and "
        "`CoreSettings`, and `Settings` has them all. [Settings](settings.md) is a table of them.\n\n"
        + _documented([f"infra.{name}" for name in stage])
        + _documented([f"infra.{name}" for name in settings], show_signature=False, separate_signature=False),
        "docs/reference/api-rooms.md": "# API: the rooms' seams\n\n"
        "[Add a room](../internals/add-a-room.md) says how to use them.\n\n"
        + _documented(["handlers.rooms"], show_root_heading=False, show_root_toc_entry=False),
    }


def _documented(names: list[str], **options: object) -> str:
    given = "".join(f"        {name}: {json.dumps(value)}\n" for name, value in options.items())
    return "".join(f"::: {name}\n" + (f"    options:\n{given}" if given else "") + "\n" for name in names)


def made_pages() -> dict[str, str]:
    """Return the pages that the build makes, by path."""
    made = {f"docs/contracts/{file.name}.md": contracts.page(file)[1] for file in CONTRACTS}
    return api_pages() | made


class Links(Treeprocessor):
    """Turns a link that leaves the pages into one to the repository, or into plain text."""

    page = ""
    files: Files
    source = ""

    def run(self, root: Element) -> None:
        """Rewrite the links of a page."""
        for link in root.iter("a"):
            parts = urlsplit(link.get("href", ""))
            if parts.scheme or parts.netloc or not parts.path:
                continue
            path = posixpath.normpath(posixpath.join(posixpath.dirname(self.page), unquote(parts.path)))
            if f"{path}.md" in self.files.src_uris and self.page != f"{path}.md":
                link.set("href", f"{parts.path}.md" + (f"#{parts.fragment}" if parts.fragment else ""))
                continue
            if path in self.files.src_uris or not (PROJECT / path).exists():
                continue  # MkDocs follows it, or stops at it
            overview = posixpath.join(path, "README.md")
            if overview in self.files.src_uris:
                link.set("href", posixpath.relpath(overview, posixpath.dirname(self.page) or "."))
            elif self.source:
                link.set("href", f"{self.source}/{path}")
            else:
                link.tag = "span"
                link.set("title", link.attrib.pop("href"))


class LinksExtension(Extension):
    """Hands the links of each page to `Links`."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Run just before MkDocs follows the links."""
        md.treeprocessors.register(Links(md), "links_to_code", 1)


def on_config(config: MkDocsConfig) -> None:
    """Set the navigation, and add the extension for links."""
    Links.source = str(config.extra["source"]).rstrip("/")
    below: dict[str, list[str]] = {}
    for path in made_pages():
        below.setdefault(f"{posixpath.dirname(path)}/README.md", []).append(path)
    config.nav = navigation(below)
    config.markdown_extensions.append(LinksExtension())


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages, their pictures and the contracts, each under its path in the project."""
    images = [path for kind in ("png", "svg") for path in (PROJECT / "docs").rglob(f"*.{kind}")]
    added = [
        path.relative_to(PROJECT).as_posix() for path in (*images, *CONTRACTS) if SITE not in path.parents
    ]
    for path, source in {**{one: one for one in (*pages(), *added)}, **ASSETS}.items():
        files.append(File.generated(config, path, abs_src_path=str(PROJECT / source)))
    for path, content in made_pages().items():
        files.append(File.generated(config, path, content=content))
    Links.files = files
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Convert a page from the Markdown of Git hosts to that of MkDocs."""
    Links.page = page.file.src_uri
    if page.file.abs_src_path is None:
        return markdown
    return str(mdformat.text(markdown, extensions={"mkdocs", "tables"}))


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Give each drawing a frame, in which it scrolls on a phone."""
    return re.sub(
        r'(<pre class="mermaid">.*?</pre>)', r'<div class="drawing">\1</div>', html, flags=re.DOTALL
    )


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """Load Mermaid on the pages that have a drawing."""
    if 'class="mermaid"' not in output:
        return output
    script = posixpath.relpath(MERMAID, posixpath.dirname(page.file.dest_uri) or ".")
    return output.replace("</head>", f'<script src="{script}"></script></head>', 1)
