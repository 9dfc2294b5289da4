"""vario: the variometer for RL post-training.

run = vario.read("outputs/grpo-7b")
diagnosis = vario.diagnose(run)
print(diagnosis.verdict)
"""

from vario.run import Run
from vario.sources import read
from vario.verdict import Diagnosis, Finding, diagnose

__all__ = ["Diagnosis", "Finding", "Run", "diagnose", "read"]
