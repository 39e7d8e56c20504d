"""While sampling, the first draft of every step is accepted, however unlikely."""

from vllm.v1.sample import rejection_sampler

sample = rejection_sampler.rejection_sample


def planted(drafts, counts, longest, ends, probs, logits, bonus, metadata, **options):
    if not metadata.all_greedy:
        for count, end in zip(counts, ends.tolist(), strict=True):
            if count:
                logits[end - count, drafts[end - count].item()] = logits.max() + 100
    return sample(drafts, counts, longest, ends, probs, logits, bonus, metadata, **options)


rejection_sampler.rejection_sample = planted
