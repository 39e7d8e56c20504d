"""Between target and draft, a request's rows are those of its step before."""

from vllm.v1.worker.gpu_model_runner import GPUModelRunner

before = {}
propose = GPUModelRunner.propose_draft_token_ids


def planted(self, scheduled, sampled, sampling, hidden, sample_hidden, planes, *rest):
    handed, first = [plane.clone() for plane in planes], 0
    for name in self.input_batch.req_ids:
        count = scheduled.num_scheduled_tokens[name]
        mine = [plane[first : first + count].clone() for plane in planes]
        for plane, old in zip(handed, before.get(name, ()), strict=False):
            rows = min(count, len(old))
            plane[first : first + rows] = old[:rows]
        before[name], first = mine, first + count
    return propose(self, scheduled, sampled, sampling, hidden, sample_hidden, handed, *rest)


GPUModelRunner.propose_draft_token_ids = planted
