"""Beside a running training: what is followed, judged at its cadence, told when it changes, and acted upon when that was asked for."""
