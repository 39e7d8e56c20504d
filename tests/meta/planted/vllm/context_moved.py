"""The draft takes every row in at the position behind its own."""

from vllm.v1.spec_decode.dflash import DFlashProposer

set_inputs = DFlashProposer.set_inputs_first_pass


def planted(self, *args, **kwargs):
    inputs = set_inputs(self, *args, **kwargs)
    self._context_positions_buffer[: self._dflash_num_context] += 1
    return inputs


DFlashProposer.set_inputs_first_pass = planted
