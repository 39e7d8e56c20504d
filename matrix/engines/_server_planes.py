"""The planes in an SGLang server's answer, where it was started to give them.

That is its public capture mode (`--enable-return-aux-hidden-states`): the target runs alone, and
the layer ids stand in the server's own arguments. `meta_info.hidden_states` holds a table with the
rows of the prefill, then one row a decode step, the planes of a row one behind the other. Of a
prompt in several chunks it holds the last chunk's rows alone (0.5.23).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np

from matrix.engines._messages import Array, Forward, StartSpec, Step
from matrix.errors import EngineError

__all__ = ["Capture", "forwards"]


ROOM: Final = 1024
"""Tokens of the longest prompt that a clause captures: it must fit into one chunk."""


class Capture(msgspec.Struct, frozen=True):
    """What `/server_info` says of the capture mode."""

    enable_return_aux_hidden_states: bool = False
    return_aux_hidden_state_layer_ids: list[int] | None = None
    chunked_prefill_size: int | None = None

    def lacks(self, spec: StartSpec) -> dict[str, str]:
        """What a start can't have, capturing or not."""
        if not self.enable_return_aux_hidden_states:
            why = "the server was not started with --enable-return-aux-hidden-states"
            return {"planes": why}
        found = {"draft": "a server that gives planes runs the target alone"}
        ids, chunk = self.return_aux_hidden_state_layer_ids or [], self.chunked_prefill_size or 0
        if ids != spec.layer_ids:
            found["planes"] = f"it captures layers {ids}, the row asks for {spec.layer_ids}"
        elif 0 < chunk < ROOM:
            why = f"of chunks of {chunk} tokens its answers hold the last alone"
            found["planes"] = f"{why}; want --chunked-prefill-size {ROOM} or more"
        return found


def forwards(states: Any, cached: int, dtype: str) -> tuple[list[Forward], list[Step]]:
    """What each forward handed over, and a step without drafts for each that decoded.

    Args:
        states: `meta_info.hidden_states`.
        cached: tokens of the prompt that were not computed, and have no row.
        dtype: of the target.

    Raises:
        EngineError: they have another form.
    """
    handed, steps, position = list[Forward](), list[Step](), cached
    if not isinstance(states, list):
        raise EngineError("BadAnswer", f"hidden_states is {type(states).__name__}, want a list")
    for at, rows in enumerate(states):
        try:
            values = np.asarray(rows, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise EngineError("BadAnswer", f"hidden_states[{at}]: {error}") from error
        if values.ndim not in (1, 2):
            text = (
                f"hidden_states[{at}] has {values.ndim} dimensions, want a row or a table of rows"
            )
            raise EngineError("BadAnswer", text)
        if values.ndim == 1:
            steps.append(Step(position, [], 0))
        table = np.atleast_2d(values)
        array = Array(dtype, table.shape, table.tobytes())
        handed.append(Forward("prefill" if values.ndim == 2 else "verify", position, [array]))
        position += len(table)
    return handed, steps
