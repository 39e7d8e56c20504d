"""Between target and draft, the rows of a prefill move by one position."""

import torch
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

propose = GPUModelRunner.propose_draft_token_ids


def planted(self, scheduled, sampled, sampling, hidden, sample_hidden, planes, *rest):
    if not scheduled.scheduled_spec_decode_tokens:
        rows = [scheduled.num_scheduled_tokens[name] for name in self.input_batch.req_ids]
        planes = [
            torch.cat([part.roll(1, dims=0) for part in plane[: sum(rows)].split(rows)])
            for plane in planes
        ]
    return propose(self, scheduled, sampled, sampling, hidden, sample_hidden, planes, *rest)


GPUModelRunner.propose_draft_token_ids = planted
