"""The first draft of every greedy step is accepted, right or wrong."""

from vllm.v1.sample import rejection_sampler

sample = rejection_sampler.rejection_sample


def planted(drafts, counts, longest, ends, probs, logits, bonus, metadata, **options):
    if metadata.all_greedy:
        for count, end in zip(counts, ends.tolist(), strict=True):
            if count:
                logits[end - count, drafts[end - count].item()] = logits.max() + 1
    return sample(drafts, counts, longest, ends, probs, logits, bonus, metadata, **options)


rejection_sampler.rejection_sample = planted
