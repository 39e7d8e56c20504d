"""What stands in for things that SGLang imports and a machine without a GPU can't have.

Only a worker that serves SGLang loads this, before SGLang itself; with a GPU nothing is put in
place. Each stand-in is there to be imported: where one were called, it would raise. Their names
stand in every cell that was measured with them.

- `vllm._custom_ops`, in the folder `site` beside this file. Where SGLang finds no kernels of its
  own it imports vLLM's, and then takes its native code on a CPU.
- Two operators of torchvision, declared without a body. torchvision's own registration of their
  shapes fails where its compiled part was built for another torch (its CUDA build, over a CPU
  torch), and SGLang's image code imports torchvision.
- Triton's interpreter, for the kernels that SGLang has no native code for. It is Triton's own, and
  runs the same kernel source; SGLang's CPU mode is off, since that asks for kernels that are not
  published for it.
- A `transformers.AutoConfig.register` that lets a name be registered again, under `--engine-path`
  alone: an older release registers configs that a newer transformers brings itself, and would not
  import.
"""
