"""What precursors lead to: in how many labelled runs it came, and how far ahead they spoke.

    python bench/precursors.py [--lab DIR] [--corpus DIR]

A precursor counts where it was detected before its outcome was; the lead is in logged rows. What is printed here
stands in the rules' `precedes`; fewer than five runs with the precursor are folklore.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

from shared import labels_of, raw_log, shared_folder, table

import vario
from vario.rules import RULES
from vario.rules.engine import judge


def main() -> int:
    """Print one row a precursor and outcome."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", type=Path, default=shared_folder() / "lab" / "runs")
    parser.add_argument("--corpus", type=Path, default=shared_folder() / "corpus" / "runs")
    options = parser.parse_args()
    pairs = [(r, p) for r in RULES for p in r.precedes]
    wanted = {r.name for r, _ in pairs} | {p.rule for _, p in pairs}
    rules = [r for r in RULES if r.name in wanted]
    seen = []
    for folder, corpus in ((options.lab, False), (options.corpus, True)):
        for run in labels_of(folder):
            try:
                read = vario.read(raw_log(folder / run) if corpus else folder / run)
            except vario.errors.VarioError:
                continue
            judged = judge(read, rules=rules)
            if judged is not None:
                found = [*judged.incidents, *(s for i in judged.incidents for s in i.symptoms)]
                seen.append({i.rule.name: i.detected_at for i in found if i.detected_at is not None})
    rows = []
    for rule, precedes in pairs:
        spoke = [s for s in seen if rule.name in s]
        came = [s[precedes.rule] - s[rule.name] for s in spoke if s.get(precedes.rule, -1) > s[rule.name]]
        base = sum(precedes.rule in s for s in seen)
        lead = f"{statistics.median(came):.0f}" if came else "-"
        rows.append((rule.name, precedes.rule, f"{len(came)} of {len(spoke)}", lead, f"{base} of {len(seen)}"))
    print(table(rows, ("precursor", "outcome", "came after it", "median lead, rows", "outcome in all runs")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
