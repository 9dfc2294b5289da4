"""A diagnosis in a notebook: the verdict, the findings and the primary panel."""

from vario.surfaces.notebook.card import card

__all__ = ["card"]
