"""Between target and draft, every request's rows move by one, in prefill and decode."""

import torch
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

propose = GPUModelRunner.propose_draft_token_ids


def planted(self, scheduled, sampled, sampling, hidden, sample_hidden, planes, *rest):
    rows = [scheduled.num_scheduled_tokens[name] for name in self.input_batch.req_ids]
    planes = [
        torch.cat([part.roll(1, dims=0) for part in plane[: sum(rows)].split(rows)])
        for plane in planes
    ]
    return propose(self, scheduled, sampled, sampling, hidden, sample_hidden, planes, *rest)


GPUModelRunner.propose_draft_token_ids = planted
