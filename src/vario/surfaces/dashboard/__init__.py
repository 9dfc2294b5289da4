"""`vario serve`: a dashboard one lives in; pages from the same templates as the report, served from this process."""
