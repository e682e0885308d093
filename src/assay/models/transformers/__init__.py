"""A Hugging Face model in a child process: the process and the code that runs inside.

`hf.py` is the provider. `process.py` runs in assay, `worker.py` and `engine.py` in the child, and
`protocol.py` has the messages between them. Only `engine.py` imports torch and transformers.
"""
