"""Numbers of runs under watch for other systems: Prometheus, with its alerting rules, and a Grafana dashboard."""
