"""What two config files must agree on, judged before a GPU is rented. `docs/preflight.md` explains.

No torch, no engine, no weights: configs, a tokenizer's config and the header of a draft's weights
are read, the committed scans are asked, and the clauses `CFG-*` say what fits.
"""

from __future__ import annotations

from matrix.preflight import _clauses, _numbers, _semantics  # noqa: F401 - they fill CLAUSES
from matrix.preflight._cli import register
from matrix.preflight._files import Tensor
from matrix.preflight._judge import Result, judge
from matrix.preflight._new import row
from matrix.preflight._sides import Side, open_draft, open_target
from matrix.preflight._subject import Subject, edition, examine
from matrix.preflight._verdict import CLAUSES, Clause, Judgement

__all__ = [
    "CLAUSES",
    "Clause",
    "Judgement",
    "Result",
    "Side",
    "Subject",
    "Tensor",
    "edition",
    "examine",
    "judge",
    "open_draft",
    "open_target",
    "register",
    "row",
]
