"""Surfaces: everything that people, agents and pagers meet. They read diagnoses, never arrays."""
