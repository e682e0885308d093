"""The options of `assay memory test`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, field

from assay.core.spec import Options, RunSpec, ask, how, listed


class MemoryTestOptions(Options, frozen=True, kw_only=True):
    """What a memory test can be told besides the common options."""

    dataset: Annotated[str, ask("Data set: locomo, longmemeval, plain, or FILE.py:load of your own.")] = (
        "locomo"
    )
    data: Annotated[str, ask("The file with its conversations.", content=True)] = ""
    memory: Annotated[list[str], ask("Memories to test, such as bm25,FUMemory or FILE.py:Name.")] = field(
        default_factory=list
    )
    memory_args: Annotated[
        dict[str, Any], ask("Options of the memories, as key=value,key=value; each takes those it has.")
    ] = field(default_factory=dict)
    references: Annotated[
        bool, ask("Test the yardsticks too: no memory, full context, last messages, BM25, the evidence.")
    ] = False
    embedder: Annotated[str, ask("Embeds texts for memories that need it.")] = "wordllama"
    task_id: Annotated[
        list[str], ask("Only these conversations: 0000 is the first; the data's own ids work too.")
    ] = field(default_factory=list)
    categories: Annotated[list[str], ask("Only questions of these categories, such as 1,2,3,4.")] = field(
        default_factory=list
    )
    trigger: Annotated[
        Literal["increment", "segments"],
        ask("When to test: after a segment's worth of new questions, or at each part of all."),
    ] = "increment"
    segments: Annotated[int, ask("Into how many parts the questions are cut."), Meta(ge=1)] = 10
    final_test: Annotated[bool, ask("Ask what is left once more after the last message.")] = True
    top_k: Annotated[int, ask("Items that a memory may give for a question."), Meta(ge=1)] = 10
    no_answer: Annotated[bool, ask("Only search: no model answers, retrieval is scored.")] = False
    conversations: Annotated[int, how("Conversations that are open at once."), Meta(ge=1)] = 8


def normalise(spec: RunSpec) -> RunSpec:
    """Lists may be written `a,b`."""
    options = spec.options
    assert isinstance(options, MemoryTestOptions)
    changes = {name: listed(getattr(options, name)) for name in ("memory", "task_id", "categories")}
    return msgspec.structs.replace(spec, options=msgspec.structs.replace(options, **changes))
