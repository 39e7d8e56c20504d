"""On a prefix-cache hit the draft gets the planes of the first positions, kept from before."""

from vllm.v1.worker.gpu_model_runner import GPUModelRunner

kept = {}
propose = GPUModelRunner.propose_draft_token_ids


def planted(self, scheduled, sampled, sampling, hidden, sample_hidden, planes, *rest):
    new, first = {request.req_id: request for request in scheduled.scheduled_new_reqs}, 0
    planes = [plane.clone() for plane in planes]
    for name in self.input_batch.req_ids:
        count = scheduled.num_scheduled_tokens[name]
        if name in new:
            prompt = tuple(new[name].prompt_token_ids)
            if new[name].num_computed_tokens:
                for plane, old in zip(planes, kept[prompt], strict=True):
                    rows = min(count, len(old))
                    plane[first : first + rows] = old[:rows]
            else:
                kept[prompt] = [plane[first : first + count].clone() for plane in planes]
        first += count
    return propose(self, scheduled, sampled, sampling, hidden, sample_hidden, planes, *rest)


GPUModelRunner.propose_draft_token_ids = planted
