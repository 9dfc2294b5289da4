"""`python -m vario.surfaces.cli`."""

import sys

from vario.surfaces.cli import main

sys.exit(main())
