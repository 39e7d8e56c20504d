"""Between target and draft, the first two requests of a step exchange their rows."""

from vllm.v1.worker.gpu_model_runner import GPUModelRunner

propose = GPUModelRunner.propose_draft_token_ids


def planted(self, scheduled, sampled, sampling, hidden, sample_hidden, planes, *rest):
    if len(self.input_batch.req_ids) > 1:
        first, second = (scheduled.num_scheduled_tokens[r] for r in self.input_batch.req_ids[:2])
        rows = min(first, second)
        planes = [plane.clone() for plane in planes]
        for plane in planes:
            mine = plane[:rows].clone()
            plane[:rows] = plane[first : first + rows]
            plane[first : first + rows] = mine
    return propose(self, scheduled, sampled, sampling, hidden, sample_hidden, planes, *rest)


GPUModelRunner.propose_draft_token_ids = planted
