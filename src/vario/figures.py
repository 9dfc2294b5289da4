"""`vario.figures`: figures for papers.

from vario.figures import panel, save

save(panel(diagnosis, ["reward/mean", "kl/reference"]), "figure.pdf")
"""

from vario.surfaces.figures.paper import panel, save

__all__ = ["panel", "save"]
