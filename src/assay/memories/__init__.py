"""Built-in memories, one per file. `core/memory.py` has the contract, `helpers/` the parts that they share.

A file `ga_memory.py` is the memory `GAMemory`; any other file has its memory's name.
"""
