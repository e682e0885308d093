"""`assay pipeline`: runs multi-step pipelines on testsets, in the file formats of Prompt Lab.

`assay` exports the names of Prompt Lab's `src/testset_loader.py`: `TestsetLoader`, `load_testset` and others.
"""
