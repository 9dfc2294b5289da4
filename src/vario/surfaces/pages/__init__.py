"""HTML of a diagnosis: one set of templates for the report, the dashboard and notebooks."""
