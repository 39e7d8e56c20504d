"""Speculation falls back to plain decoding without a word."""

from vllm.v1.core.sched.scheduler import Scheduler


def planted(self, draft_token_ids):
    """Drafts never reach the scheduler."""


Scheduler.update_draft_token_ids = planted
