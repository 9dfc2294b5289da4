"""The vocabulary: what can be read (metrics) and what can be turned (knobs)."""

from vario.catalogue.knob import KNOBS, Knob
from vario.catalogue.metric import FROM_SAMPLES, METRICS, PER_SEQUENCE, PER_TOKEN, Metric, component_of, lookup

__all__ = ["FROM_SAMPLES", "KNOBS", "METRICS", "PER_SEQUENCE", "PER_TOKEN", "Knob", "Metric", "component_of", "lookup"]
