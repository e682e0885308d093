"""`assay memory test`: tests how well a memory answers while a conversation grows. The output format is SAGE's.

`PipelineCaller` (`pipeline_caller.py`) and `Sink` (`sink.py`) are names of that format. A loader of your own builds the
objects of `conversation.py`.
"""
