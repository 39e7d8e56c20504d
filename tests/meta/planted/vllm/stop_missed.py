"""A stop token inside an accepted block is passed over."""

from vllm.v1.core.sched.scheduler import Scheduler

update = Scheduler._update_request_with_output


def planted(self, request, new_token_ids, **options):
    params = request.sampling_params
    stops = params.stop_token_ids
    if len(new_token_ids) > 1:
        params.stop_token_ids = []
    try:
        return update(self, request, new_token_ids, **options)
    finally:
        params.stop_token_ids = stops


Scheduler._update_request_with_output = planted
