"""What servers answer, as data: models, completions, and what they count of their speculation.

Field names are those of vLLM 0.32.0 and SGLang 0.5.23; where an older release has another name for
one, that stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from matrix.engines._messages import Counters

__all__ = ["Completion", "Generated", "Model", "Models", "Version", "published"]

Count = Annotated[int, msgspec.Meta(ge=0)]


class Model(msgspec.Struct, frozen=True):
    """One model of `/v1/models`."""

    id: str
    owned_by: str | None = None
    """The engine's name, on vLLM and SGLang."""
    root: str | None = None
    """Where vLLM loaded it from."""


class Models(msgspec.Struct, frozen=True):
    """The answer of `/v1/models`."""

    data: list[Model]


class Version(msgspec.Struct, frozen=True):
    """The answer of vLLM's `/version`, and what matters here of SGLang's `/server_info`."""

    version: str


class _Choice(msgspec.Struct, frozen=True):
    token_ids: list[Count] | None = None
    finish_reason: str | None = None


class _Details(msgspec.Struct, frozen=True):
    cached_tokens: Count | None = None


class _Usage(msgspec.Struct, frozen=True):
    prompt_tokens_details: _Details | None = None


class _Speculation(msgspec.Struct, frozen=True):
    """`--per-request-spec-decode-metrics summary` gives the histogram, `detailed` the steps too."""

    acceptance_histogram: list[Count]
    num_draft_tokens: Count
    per_step_accepted: list[Count] | None = None


class _Metrics(msgspec.Struct, frozen=True):
    speculative_decoding: _Speculation | None = None


class Completion(msgspec.Struct, frozen=True):
    """The answer of `/v1/completions` to one prompt, with `return_token_ids`."""

    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]
    usage: _Usage | None = None
    metrics: _Metrics | None = None

    @property
    def tokens(self) -> list[int] | None:
        """What was emitted; `None` from a server that doesn't give ids back."""
        return self.choices[0].token_ids

    @property
    def finish(self) -> str:
        """`stop` or `length`."""
        return self.choices[0].finish_reason or "length"

    @property
    def cached(self) -> int:
        """Tokens of the prompt that were not computed, where the server says so."""
        details = self.usage.prompt_tokens_details if self.usage else None
        return (details.cached_tokens or 0) if details else 0

    @property
    def counted(self) -> Counters | None:
        """What was counted for it; `None` where the server doesn't say."""
        said = self.metrics.speculative_decoding if self.metrics else None
        if said is None:
            return None
        steps = said.per_step_accepted or _spread(said.acceptance_histogram)
        return _counters(steps, said.num_draft_tokens)


class _Reason(msgspec.Struct, frozen=True):
    type: str


class _Meta(msgspec.Struct, frozen=True):
    """SGLang's own words: its "correct drafts" are the accepted ones, the bonus token not counted.

    `spec_draft_token_num` and `spec_accept_histogram` are what earlier releases call the same.
    """

    finish_reason: _Reason | None = None
    cached_tokens: Count = 0
    hidden_states: Any = None
    spec_num_proposed_drafts: Count | None = None
    spec_draft_token_num: Count | None = None
    spec_correct_drafts_histogram: list[Count] | None = None
    spec_accept_histogram: list[Count] | None = None


class Generated(msgspec.Struct, frozen=True):
    """The answer of SGLang's `/generate` to one prompt."""

    output_ids: list[Count] | None = None
    meta_info: _Meta = _Meta()

    @property
    def tokens(self) -> list[int] | None:
        """What was emitted."""
        return self.output_ids

    @property
    def finish(self) -> str:
        """`stop` or `length`."""
        return self.meta_info.finish_reason.type if self.meta_info.finish_reason else "length"

    @property
    def cached(self) -> int:
        """Tokens of the prompt that were not computed."""
        return self.meta_info.cached_tokens

    @property
    def counted(self) -> Counters:
        """What was counted for it; a request without a verify step has no word of it."""
        said = self.meta_info
        histogram = said.spec_correct_drafts_histogram or said.spec_accept_histogram or []
        drafted = said.spec_num_proposed_drafts or said.spec_draft_token_num or 0
        return _counters(_spread(histogram), drafted)


def _spread(histogram: list[int]) -> list[int]:
    """A histogram's steps, ascending: their order is lost."""
    return [accepted for accepted, count in enumerate(histogram) for _ in range(count)]


def _counters(steps: list[int], drafted: int) -> Counters:
    longest = max(steps, default=0)
    return Counters(
        drafts=len(steps),
        drafted=drafted,
        accepted=sum(steps),
        accepted_at=[sum(step > at for step in steps) for at in range(longest)],
        per_step=steps,
    )


_SUMS: Final[Mapping[str, str]] = {
    "drafts": "vllm:spec_decode_num_drafts_total",
    "drafted": "vllm:spec_decode_num_draft_tokens_total",
    "accepted": "vllm:spec_decode_num_accepted_tokens_total",
    "requests": "vllm:request_success_total",
    "tokens": "vllm:generation_tokens_total",
}
_AT: Final = "vllm:spec_decode_num_accepted_tokens_per_pos_total"


def published(page: str) -> Counters | None:
    """What a metrics page counts since the server's start; `None` for one that isn't vLLM's.

    SGLang's page has gauges of the last few steps only. A vLLM without speculation has none of its
    counters: it counts zero.
    """
    sums: dict[str, int] = {}
    at: dict[int, int] = {}
    try:
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                if sample.name in _SUMS.values():
                    sums[sample.name] = sums.get(sample.name, 0) + int(sample.value)
                elif sample.name == _AT:
                    position = int(sample.labels["position"])
                    at[position] = at.get(position, 0) + int(sample.value)
    except (ValueError, KeyError, OverflowError, IndexError):
        return None  # a page of something else
    if _SUMS["requests"] not in sums:
        return None
    values: dict[str, Any] = {field: sums.get(name, 0) for field, name in _SUMS.items()}
    return Counters(accepted_at=[at[position] for position in sorted(at)], **values)
