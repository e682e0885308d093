"""Built-in memories, one per file. `core/memory.py` defines the interface, `helpers/` has shared parts.

The name of a memory comes from its file: `ga_memory.py` is `GAMemory`, `bm25.py` is `bm25`. The memories with
`Memory` in their name are those of the MemEngine library, written anew for this interface.
"""
