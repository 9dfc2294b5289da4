"""The page of the formats: what is read, how it is recognised, what has to be installed."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Iterator
from types import ModuleType

from page_parts import MADE, ROOT, paragraphs, table

from vario.sources import mlflow_server, opening, remote, wandb_server
from vario.sources.readers import READERS, mlflow_folder

ELSEWHERE = (remote, wandb_server, mlflow_server)
"""What reads runs that are not files on this machine."""
_EXTRA = re.compile(r"vario\[(\w+)\]")
_TITLE_ENDS = re.compile(r"[:,.](?:\s|$)")


def title_of(reader: ModuleType) -> str:
    """What a format is called: the start of its module's docstring."""
    return _TITLE_ENDS.split(reader.__doc__ or reader.__name__, maxsplit=1)[0].strip()


def name_of(module: ModuleType) -> str:
    """The name of a module's file."""
    return module.__name__.rsplit(".", 1)[1]


def extras_of(module: ModuleType) -> list[str]:
    """The extras that a module's messages tell people to install."""
    return list(dict.fromkeys(_EXTRA.findall(inspect.getsource(module))))


def _needs(module: ModuleType) -> str:
    found = extras_of(module)
    return ", ".join(f"`pip install 'vario[{extra}]'`" for extra in found) if found else "nothing beyond numpy"


def _sections(readers: tuple[ModuleType, ...]) -> Iterator[str]:
    for reader in readers:
        yield from ("", f"### {title_of(reader)}", "", *paragraphs(reader.__doc__ or ""), "")
        yield f"- Recognised: {_recognised(reader)}"
        yield f"- Needs: {_needs(reader)}"
        if hasattr(reader, "runs"):
            yield "- Holds several runs: choose one with `--run NAME`, or take each with `--all`"
        yield f"- Reader: `{name_of(reader)}`"


def _recognised(reader: ModuleType) -> str:
    asked = getattr(reader, "recognises", None) or reader.is_run
    text = " ".join((inspect.getdoc(asked) or "").split())
    return text[0].lower() + text[1:]


def formats_page() -> str:
    """All formats in the order in which they are asked, then what is no file of its own."""
    lines = [
        MADE,
        "",
        "# Formats",
        "",
        "What can lie at a path. A file is recognised by what it holds, in the order of this page; its name decides only",
        "where the content leaves it open. [Reading runs](reading-runs.md) has a command for each.",
        "",
        *table(
            ("format", "reader", "needs"),
            (
                (f"[{title_of(r)}](#{_anchor(title_of(r))})", f"`{name_of(r)}`", _needs(r))
                for r in (*READERS, mlflow_folder)
            ),
        ),
        "",
        "## Files",
        *_sections(READERS),
        "",
        "## Folders",
        "",
        "A folder is looked through for all of these, some levels down; files that tell of one run are read together, and",
        "of two sources of a metric the one with more points counts. One kind of folder is a run of its own:",
        *_sections((mlflow_folder,)),
        "",
        "## Packed",
        "",
        *paragraphs(opening.__doc__ or ""),
        "",
        f"gzip needs nothing; zstandard needs {_needs(opening)}. What unpacks to more than {opening.MAX_RATIO} times its size is",
        "refused, beyond the first 64 MiB.",
        "",
        "## Elsewhere",
    ]
    for module in ELSEWHERE:
        lines += [
            "",
            f"### {title_of(module)}",
            "",
            *paragraphs(module.__doc__ or ""),
            "",
            f"- Needs: {_needs(module)}",
        ]
    lines += ["", "## What to install", "", "vario itself needs numpy alone. Each extra names its packages:", ""]
    lines += table(("extra", "brings"), _extras())
    return "\n".join(lines) + "\n"


def _anchor(title: str) -> str:
    """The anchor that a heading gets: small letters, hyphens for spaces, nothing else kept."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _extras() -> Iterator[tuple[str, str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra, packages in project["optional-dependencies"].items():
        if extra != "test":
            yield f"`{extra}`", ", ".join(re.split(r"[<>=]", p)[0] for p in packages)
