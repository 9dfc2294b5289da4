"""What `mkdocs` is told beside mkdocs.yml: the folders of the nav, anchors as GitHub makes them, tables that scroll."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

HEADING = re.compile(r"^#+ (?P<title>.+)$")
LINK = re.compile(r"\[(?P<title>[^\]]+)\]\((?P<page>[\w.-]+\.md)\)")
TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
CODE = re.compile(r"(<code>)(.*?)(</code>)", re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Pages of a folder are taken from its index, so that a new rule or framework needs no line here."""
    config.nav = [_opened(entry, Path(config.docs_dir)) for entry in config.nav or []]
    config.mdx_configs["toc"] = {"slugify": slug}
    return config


def on_page_content(html: str, **_: object) -> str:
    """What is wide scrolls by itself, by finger and by key; a pipe in a cell's code is a pipe."""
    html = html.replace("<pre>", '<pre tabindex="0">')
    return TABLE.sub(lambda found: f'<div class="scroll" role="group" aria-label="table" tabindex="0">{_piped(found[0])}</div>', html)


def _piped(table: str) -> str:
    return CODE.sub(lambda code: code[1] + code[2].replace("\\|", "|") + code[3], table)


def slug(text: str, separator: str) -> str:
    """The anchor of a heading, as GitHub and our own tests have it."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", separator)


def _opened(entry: Any, docs: Path) -> Any:
    if not isinstance(entry, dict):
        return entry
    ((title, what),) = entry.items()
    if not isinstance(what, str) or not what.endswith("/"):
        return entry
    return {title: [{f"All {title.lower()}": f"{what}index.md"}, *_listed(docs / what, what)]}


def _listed(folder: Path, name: str) -> list[Any]:
    """The pages that an index links to, below its headings; what it leaves out, mkdocs complains about."""
    groups: dict[str, dict[str, str]] = {}
    heading = ""
    for line in (folder / "index.md").read_text(encoding="utf-8").splitlines():
        if found := HEADING.match(line):
            heading = found["title"]
        for link in LINK.finditer(line):
            if not any(link["page"] in pages for pages in groups.values()):
                groups.setdefault(heading, {})[link["page"]] = link["title"]
    made = {heading: [{title: f"{name}{page}"} for page, title in pages.items()] for heading, pages in groups.items()}
    return [{heading: pages} for heading, pages in made.items()]
