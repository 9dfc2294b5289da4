"""Figures for papers: a run's metrics with what was found on them, at the width of a column."""
