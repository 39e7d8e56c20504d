"""placeholder being written"""

from __future__ import annotations

from matrix.contract._clause import Finding
from matrix.contract._compare import Comparison, Context, Observed, PlaneMatch, compare

__all__ = ["Comparison", "Context", "Observed", "PlaneMatch", "compare", "explain"]


def explain(observed: Observed, context: Context) -> tuple[Finding, ...]:
    """Being written."""
    return ()
