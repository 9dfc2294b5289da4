"""Curves with what was found on them: one drawing for the report, the dashboard, notebooks and Markdown."""
