"""Hooks of mkdocs: pages link to files of the repository that stand outside `docs`.

On a code host such links work as they are. On the site, each file that a page links to becomes a
page below `repository/`: Markdown as it is, other text as a block of code. Nothing is fetched, and
a link to a missing file stays as it is, so that `mkdocs build --strict` reports it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
DOCS: Final = "docs"
OUTSIDE: Final = "repository"
"""The site's folder for pages that are made from files outside `docs`."""

LINK: Final = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)\s]*)?\))")
TITLE: Final = re.compile(r"^# .*$", re.MULTILINE)


def repository_path(site: str) -> str:
    """Return the path in the repository of a page of the site."""
    inside = site.removeprefix(f"{OUTSIDE}/")
    return inside.removesuffix(".code.md") if inside != site else f"{DOCS}/{site}"


def site_path(path: str) -> str:
    """Return the page of the site that shows a file of the repository."""
    if path.startswith(f"{DOCS}/"):
        return path.removeprefix(f"{DOCS}/")
    return f"{OUTSIDE}/{path}" if path.endswith(".md") else f"{OUTSIDE}/{path}.code.md"


def targets(path: str) -> list[str]:
    """Return the files of the repository that a Markdown file links to, by path."""
    text = (ROOT / path).read_text(encoding="utf-8")
    folder = posixpath.dirname(path)
    found = {_target(folder, match[2]) for match in LINK.finditer(text)}
    return sorted(each for each in found if (ROOT / each).is_file())


def _target(folder: str, link: str) -> str:
    path = posixpath.normpath(posixpath.join(folder, link))
    return f"{path}/README.md" if (ROOT / path / "README.md").is_file() else path


def outside(paths: list[str]) -> list[str]:
    """Return the files outside `docs` that the site has to show, for the pages inside."""
    seen: set[str] = set()
    unread = list(paths)
    while unread:
        for target in targets(unread.pop()):
            if not target.startswith(f"{DOCS}/") and target not in seen:
                seen.add(target)
                if target.endswith(".md"):
                    unread.append(target)
    return sorted(seen)


def rewrite(markdown: str, site: str) -> str:
    """Return a page with its links to files of the repository turned into links of the site."""
    folder = posixpath.dirname(repository_path(site))

    def moved(match: re.Match[str]) -> str:
        target = _target(folder, match[2])
        if not (ROOT / target).is_file():
            return match[0]
        link = posixpath.relpath(site_path(target), posixpath.dirname(site) or ".")
        return f"{match[1]}{link}{match[3]}"

    return LINK.sub(moved, markdown)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of files outside `docs`."""
    from mkdocs.structure.files import File

    pages = [f"{DOCS}/{each.src_uri}" for each in files if each.src_uri.endswith(".md")]
    for path in outside(pages):
        text = (ROOT / path).read_text(encoding="utf-8")
        if not path.endswith(".md"):
            text = f"# `{path}`\n\n```{Path(path).suffix[1:]}\n{text.rstrip()}\n```\n"
        files.append(File.generated(config, site_path(path), content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn links to files of the repository into links of the site."""
    return rewrite(markdown, page.file.src_uri)
