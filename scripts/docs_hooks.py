"""What MkDocs is told about our site: pages from outside docs/, links that work in both places, and two checks.

A link in a page is written so that it works where the repository is read, relative to the file that it stands in:
`../CONTRIBUTING.md`, `../examples/batch.py`. Here the files that such links name become pages of the site, and the
links are rewritten to them. MkDocs calls the functions whose names begin with `on_`.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "", "SECURITY.md": "", "CHANGELOG.md": ""}
"""Files beside docs/ that are pages of the site, and their names there where they differ."""
FOLDERS = {
    "examples": (("*.py", "*.mts"), "Programs to copy. Each runs as it stands; its first lines say how."),
    "schemas": (("*.json", "*.d.ts"), "JSON Schemas of the frames of every wire, and types for TypeScript."),
}
LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")
LOADS = re.compile(
    r"<(?:script|img|iframe|source|video|audio)\b[^>]*?\bsrc=[\"']?((?:https?:)?//[^\"'\s>]+)"
    r"|<link\b(?![^>]*\brel=[\"']?(?:canonical|next|prev))[^>]*?\bhref=[\"']?((?:https?:)?//[^\"'\s>]+)"
    r"|url\(\s*[\"']?((?:https?:)?//[^\"')\s]+)|@import\s+[\"']((?:https?:)?//[^\"']+)"
)


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages that are not in docs/."""
    from mkdocs.structure.files import File

    for name in PAGES:
        files.append(File.generated(config, site_path(name), content=(ROOT / name).read_text("utf-8")))
    for folder, (patterns, about) in FOLDERS.items():
        paths = sorted(path for pattern in patterns for path in (ROOT / folder).glob(pattern))
        rows = "".join(f"| [{path.name}]({path.name}) | {summary(path)} |\n" for path in paths)
        table = f"# {folder.capitalize()}\n\n{about}\n\n| file | |\n|---|---|\n{rows}"
        files.append(File.generated(config, f"{folder}/index.md", content=table))
        for path in paths:
            name, text = f"{folder}/{path.name}", path.read_text("utf-8")
            if path.suffix == ".py":
                text = f"# {path.name}\n\n```python\n{text}```\n"
            files.append(File.generated(config, site_path(name), content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    sources = {site_path(name): name for name in PAGES} | {f"{name}/index.md": f"{name}/_" for name in FOLDERS}
    at = page.file.src_uri
    return rewritten(markdown, sources.get(at, f"docs/{at}"), at)


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    from mkdocs.exceptions import PluginError

    if broken := list(lists_without_a_blank_line(html)):
        raise PluginError(f"{page.file.src_uri}: a list needs a blank line before it: {broken[0]!r}")
    return html


def on_post_build(config: Any) -> None:
    from mkdocs.exceptions import PluginError

    for path in sorted(Path(config["site_dir"]).rglob("*")):
        if path.suffix in (".html", ".css", ".svg") and (hosts := loads_from_elsewhere(path.read_text("utf-8"))):
            raise PluginError(f"{path}: a browser would ask other hosts for {', '.join(hosts)}")


def summary(path: Path) -> str:
    """The first line of a program's docstring; nothing for other files."""
    found = re.match(r'"""(.+?)(?:"""|\n)', path.read_text("utf-8")) if path.suffix == ".py" else None
    return found[1] if found else ""


def site_path(path: str) -> str:
    """Where a file of the repository is on the site: `docs/mcp.md` is `mcp.md`, `examples` is `examples/index.md`."""
    if path in FOLDERS:
        return f"{path}/index.md"
    if path.startswith("examples/") and path.endswith(".py"):
        return path.removesuffix(".py") + ".md"
    return PAGES.get(path) or path.removeprefix("docs/")


def rewritten(markdown: str, source: str, page: str) -> str:
    """The text of the file `source` with its links leading from `page`, its place on the site."""

    def link(match: re.Match[str]) -> str:
        target = site_path(posixpath.normpath(posixpath.join(posixpath.dirname(source), match[2])))
        return match[1] + posixpath.relpath(target, posixpath.dirname(page) or ".") + match[3]

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)


def lists_without_a_blank_line(html: str) -> Iterator[str]:
    """Lines that a forge shows as items of a list or rows of a table, and MkDocs as text of the paragraph before."""
    for paragraph in re.findall(r"<p>(.*?)</p>", html, re.DOTALL):
        yield from re.findall(r"^(?:[-*] |\d+\. |\|).{0,60}", paragraph, re.MULTILINE)


def loads_from_elsewhere(text: str) -> list[str]:
    """Addresses on other hosts that a browser asks for when it shows this page, style or picture."""
    return [next(filter(None, match)) for match in LOADS.findall(text)]
