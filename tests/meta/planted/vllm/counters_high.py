"""The engine's counters show one accepted token more for every step."""

from vllm.v1.spec_decode.metrics import SpecDecodingStats

observe = SpecDecodingStats.observe_draft


def planted(self, num_draft_tokens, num_accepted_tokens):
    observe(self, num_draft_tokens, num_accepted_tokens)
    self.num_accepted_tokens += 1


SpecDecodingStats.observe_draft = planted
