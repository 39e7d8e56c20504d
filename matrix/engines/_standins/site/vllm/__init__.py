"""Stands in for vLLM where SGLang asks for its kernels; see `matrix.engines._standins`."""
