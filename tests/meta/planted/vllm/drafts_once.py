"""Only the first step behind the prefill gets drafts."""

from vllm.v1.core.sched.scheduler import Scheduler

update = Scheduler.update_draft_token_ids


def planted(self, draft_token_ids):
    update(self, draft_token_ids)
    for request in self.requests.values():
        if request.num_output_tokens > 1:
            request.spec_token_ids = []


Scheduler.update_draft_token_ids = planted
