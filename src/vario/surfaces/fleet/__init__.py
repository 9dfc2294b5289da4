"""`vario fleet`: many runs, found below roots, judged side by side, and shown in the order in which they need attention."""
