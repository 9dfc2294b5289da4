"""The documentation as a site, built as `./build-docs` does: complete, without a warning, and asking nobody for anything."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import pytest
import site_hooks

from tests.conftest import ROOT

pytest.importorskip("mkdocs", reason="mkdocs is not installed (vario[docs])")
DOCS = ROOT / "docs"
PAGES = sorted(p.relative_to(DOCS).with_suffix("").as_posix() for p in DOCS.rglob("*.md"))
ELSEWHERE = re.compile(r"^(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
LOADS = {"link", "script", "img", "iframe", "source", "video", "audio", "object", "embed"}


@dataclass
class Page(HTMLParser):
    """What an HTML file links to, loads, and can be linked to by."""

    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    nav: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    styled: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag not in ("meta", "link", "input", "img", "br", "hr"):
            self.open.append(tag)
        for name in ("href", "src", "data", "action", "poster", "srcset"):
            if (where := found.get(name)) is not None:
                (self.loads if tag in LOADS else self.links).append(where)
                if "nav" in self.open:
                    self.nav.append(where)
        if anchor := found.get("id"):
            assert anchor not in self.anchors, anchor
            self.anchors.add(anchor)
        if re.fullmatch("h[1-6]", tag):
            self.heads.append(tag)
        if style := found.get("style"):
            self.styled.append(style)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not {"pre", "code", "script"} & set(self.open):
            self.prose.append(data)


@dataclass(frozen=True)
class Site:
    folder: Path
    pages: dict[str, Page]
    said: str


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = {}
    for path in sorted(folder.rglob("*.html")):
        page = Page()
        page.feed(path.read_text(encoding="utf-8"))
        pages[path.relative_to(folder).as_posix()] = page
    return Site(folder, pages, done.stderr + done.stdout)


def test_it_is_built_without_a_word_of_warning(site: Site) -> None:
    assert "WARNING" not in site.said
    assert "ERROR" not in site.said
    left = [line for line in site.said.splitlines() if line.startswith("INFO") and not re.search(r"Cleaning|Building|built in", line)]
    assert not left, "mkdocs says these quietly: a page that the nav leaves out, a link that leads nowhere"


def test_every_page_is_built_and_in_the_nav(site: Site) -> None:
    assert {name.removesuffix(".html") for name in site.pages} == set(PAGES)
    listed = [(site.folder / where).resolve() for where in site.pages["index.html"].nav]
    assert len(set(listed)) == len(listed), "a page stands in the nav twice"
    assert {path.relative_to(site.folder.resolve()).with_suffix("").as_posix() for path in listed} == set(PAGES)


def test_a_page_that_nobody_lists_is_missed(tmp_path: Path) -> None:
    """The nav's folders are filled from their index; a page that is in neither must not pass."""
    (tmp_path / "docs/rules").mkdir(parents=True)
    (tmp_path / "docs/index.md").write_text("# Home\n\n[rules](rules/index.md)\n")
    (tmp_path / "docs/rules/index.md").write_text("# Rules\n\n## KL: KL\n\n- [kl-spike](kl-spike.md)\n")
    (tmp_path / "docs/rules/kl-spike.md").write_text("# kl-spike\n")
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:")[0]
    text = text.replace("scripts/", f"{ROOT}/scripts/").replace("site-theme", f"{ROOT}/site-theme")
    (tmp_path / "mkdocs.yml").write_text(f"{text}\nnav:\n  - Home: index.md\n  - Rules: rules/\n")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    (tmp_path / "docs/rules/kl-reset.md").write_text("# kl-reset\n")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "kl-reset.md" in done.stderr


def test_every_link_and_anchor_of_the_html_leads_somewhere(site: Site) -> None:
    count = 0
    for name, page in site.pages.items():
        for link in (*page.links, *page.loads):
            if ELSEWHERE.match(link) or link.startswith(("mailto:", "data:")):
                continue
            where, _, anchor = link.partition("#")
            there = (site.folder / name).parent / where if where else site.folder / name
            assert there.is_file(), f"{name}: {link}"
            target = site.pages.get(there.resolve().relative_to(site.folder.resolve()).as_posix())
            assert not anchor or (target is not None and anchor in target.anchors), f"{name}: {link}"
            count += 1
    assert count > 10_000


def test_nothing_is_loaded_from_elsewhere(site: Site) -> None:
    for name, page in site.pages.items():
        assert page.loads, name
        for where in page.loads:
            assert not ELSEWHERE.match(where), f"{name}: {where}"
        assert not page.styled, name
    for path in (p for p in site.folder.rglob("*") if p.suffix == ".css"):
        for where in re.findall(r"@import|url\(([^)]*)\)", path.read_text(encoding="utf-8")):
            assert where.startswith("data:"), f"{path.name}: {where}"
    for path in (p for p in site.folder.rglob("*.js")):
        code = re.sub(r"^\s*(//|\*|/\*).*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert not re.search(r"""["'`](?:https?:)?//[\w-]""", code), path.name
    assert {p.name for p in site.folder.rglob("*") if p.suffix in (".woff", ".woff2", ".ttf", ".map")} == set()


def test_markdown_means_here_what_it_means_elsewhere(site: Site) -> None:
    """mkdocs and GitHub read Markdown differently: lists without a line before them, pipes in cells, fences."""
    for name, page in site.pages.items():
        text = "".join(page.prose)
        assert not re.search(r"^\s*(?:[-*]|\d+\.) +\S.*\n\s*(?:[-*]|\d+\.) +\S", text, flags=re.MULTILINE), name
        assert "```" not in text, name
        assert not re.search(r"^\|.*\|$", text, flags=re.MULTILINE), name
        assert page.heads[0] == "h1", name
        assert page.heads.count("h1") == 1, name
        source = (DOCS / name).with_suffix(".md").read_text(encoding="utf-8")
        raw = (site.folder / name).read_text(encoding="utf-8")
        assert "\\|" not in raw.split("<main")[1].split("</main>")[0] or "\\\\|" in source, name


def test_colours_are_those_of_the_visual_language() -> None:
    """No colour of its own stands in the style sheet."""
    own = (ROOT / "site-theme/css/site.css").read_text(encoding="utf-8")
    assert not re.search(r"#[0-9a-f]{3,8}\b|rgba?\(|hsl", own)
    used = set(re.findall(r"var\(--([\w-]+)\)", own))
    known = set(re.findall(r"--([\w-]+):", (ROOT / "site-theme/css/look.css").read_text(encoding="utf-8")))
    assert used <= known


def test_anchors_are_those_of_the_other_tests() -> None:
    for head, anchor in (("A framework's page", "a-frameworks-page"), ("`[watch]`", "watch"), ("a - b", "a---b")):
        assert site_hooks.slug(head, "-") == anchor


def test_the_command_is_told_and_its_folder_ignored() -> None:
    assert "./build-docs" in (ROOT / "README.md").read_text(encoding="utf-8")
    script = (ROOT / "build-docs").read_text(encoding="utf-8")
    assert "mkdocs build --strict" in script
    assert (ROOT / "build-docs").stat().st_mode & 0o111
    assert "site_dir: build/site" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "build/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert extras["docs"] == ["mkdocs>=1.6"]
    assert "mkdocs>=1.6" in extras["test"]
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower()
    for name in ("mkdocs", "markdown", "ghp-import", "mergedeep", "watchdog", "pyyaml_env_tag", "mkdocs-get-deps"):
        assert re.search(rf"^{name}==\d", pins, flags=re.MULTILINE), name
