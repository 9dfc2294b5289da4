"""vario: the variometer for RL post-training."""
