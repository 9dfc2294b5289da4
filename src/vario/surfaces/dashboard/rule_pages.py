"""The rules: what each shows, what looks like it but is not, and what to change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from vario.errors import UnknownRule
from vario.rules.choice import Choice, choose
from vario.surfaces.cli.rule_page import FAMILIES, rule_page
from vario.surfaces.dashboard.page import Site


@dataclass(slots=True)
class Section:
    """A heading of a rule's page, or none, with what stands below it: each part a text, and whether it is an item of a list."""

    title: str
    parts: list[tuple[str, bool]] = field(default_factory=list)


def every(site: Site, request: Request) -> Response:
    """All rules by family; the user's own last."""
    rules = _known(site).rules
    families = [(title, [rule for rule in rules if rule.code.startswith(code)]) for code, title in FAMILIES.items()]
    families.append(("yours", [rule for rule in rules if rule.code[:2] not in FAMILIES]))
    return site.show("rules.html", request, families=families)


def one(site: Site, request: Request) -> Response:
    """A rule's page."""
    name, known = request.path_params["name"], _known(site)
    try:
        rule = known.find(name)
    except UnknownRule as error:
        raise HTTPException(404, str(error)) from error
    lines = rule_page(rule.name, known).splitlines()
    return site.show("rule.html", request, rule=rule, sections=sections(lines[1:]))


def _known(site: Site) -> Choice:
    """The rules of the table and of installed packages, and those that the runs' own projects add."""
    rules = {rule.name: rule for rule in choose().rules}
    for watched in list(site.library.runs):
        for rule in watched.choice.rules:
            rules.setdefault(rule.name, rule)
    return Choice(tuple(rules.values()))


def sections(lines: Iterable[str]) -> list[Section]:
    """A page of lines that are broken for a terminal, as headings, paragraphs and lists."""
    made, goes_on = [Section("")], False
    for line in lines:
        text = line.strip()
        is_item = text.startswith("- ")
        if text and not line[0].isspace() and (text.endswith(":") or made[-1].title):
            made.append(Section(text.removesuffix(":") if text.endswith(":") else ""))
            goes_on = False
            if text.endswith(":"):
                continue
        parts = made[-1].parts
        if goes_on and text and not is_item:
            parts[-1] = (f"{parts[-1][0]} {text}", parts[-1][1])
        elif text:
            parts.append((text.removeprefix("- "), is_item))
        goes_on = bool(text)
    return [section for section in made if section.parts]
