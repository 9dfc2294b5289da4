"""The rules: what each shows, what looks like it but is not, and what to change."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from vario.errors import UnknownRule
from vario.rules.choice import choose
from vario.surfaces.cli.rule_page import FAMILIES, rule_page
from vario.surfaces.dashboard.page import Site


def every(site: Site, request: Request) -> Response:
    """All rules by family."""
    rules = choose().rules
    families = [(title, [rule for rule in rules if rule.code.startswith(code)]) for code, title in FAMILIES.items()]
    return site.show("rules.html", request, families=families)


def one(site: Site, request: Request) -> Response:
    """A rule's page."""
    name, known = request.path_params["name"], choose()
    try:
        rule = known.find(name)
    except UnknownRule as error:
        raise HTTPException(404, str(error)) from error
    return site.show("rule.html", request, rule=rule, text=rule_page(rule.name, known))
