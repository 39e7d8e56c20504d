"""Without speculation, every token of the output is another one."""

from vllm.v1.worker.gpu_model_runner import GPUModelRunner

sample = GPUModelRunner._sample


def planted(self, *args, **kwargs):
    output = sample(self, *args, **kwargs)
    if self.speculative_config is None:
        output.sampled_token_ids = (output.sampled_token_ids + 1) % 500
    return output


GPUModelRunner._sample = planted
