"""`python -m matrix` is `dflash-matrix`."""

from __future__ import annotations

import sys

from matrix.cli import main

sys.exit(main())
