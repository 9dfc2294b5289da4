"""The card: the same macros as the report's, without a script, and with names that no other card of the notebook has."""

from __future__ import annotations

import hashlib
import re

from vario.surfaces.notebook.scope import card_style
from vario.surfaces.pages.environment import environment
from vario.surfaces.pages.view import View
from vario.surfaces.privacy import masked
from vario.verdict import Diagnosis

WIDTH = 320
"""Columns of a chart: a notebook keeps its outputs, so they are small."""
SCRIPTED = re.compile(r' data-[a-z]+="[^"]*"|(?<=class="plotted")(?: [a-z-]+="[^"]*")+')
"""What only the report's script reads, and what it makes of a chart: something that answers keys."""
NAMED = re.compile(r' (id="|aria-labelledby="|href="#)([^"]+)"')
"""Names within the page; in texts a quotation mark is escaped."""
LINK = re.compile(r'<a href="#([^"]+)"[^>]*>(.*?)</a>', re.DOTALL)
"""A link within the page: some lead to charts that only the report draws."""


def card(diagnosis: object) -> str | None:
    """A diagnosis as HTML for a notebook; None for anything else.

    No file is opened for it: completions are not shown.
    """
    if not isinstance(diagnosis, Diagnosis):
        return None
    view = View(diagnosis, masked(diagnosis.run.path), {}, width=WIDTH)
    drawn = SCRIPTED.sub("", environment().get_template("card.html").render(view=view, style=card_style()))
    here = set(re.findall(r' id="([^"]+)"', drawn))
    drawn = LINK.sub(lambda found: found[0] if found[1] in here else found[2], drawn)
    own = hashlib.blake2b(drawn.encode(), digest_size=4).hexdigest()
    return NAMED.sub(rf' \1\2-{own}"', drawn)
