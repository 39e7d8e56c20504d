"""A request's own counters show one drafted token more for every step."""

from vllm.v1.metrics.stats import RequestSpecDecodeMetrics

observe = RequestSpecDecodeMetrics.observe


def planted(self, num_draft_tokens, num_accepted, detailed=False):
    observe(self, num_draft_tokens + 1, num_accepted, detailed)


RequestSpecDecodeMetrics.observe = planted
