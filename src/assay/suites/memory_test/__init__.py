"""`assay memory test`: how well a memory answers as a conversation grows, in SAGE's format.

The names of the format: `PipelineCaller` stands in `pipeline_caller.py`, `Sink` in `sink.py`. A loader of one's own
builds the objects of `conversation.py`.
"""
