"""The options of `assay memory test`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, field

from assay.core.spec import SuiteOptions, ask, how


class MemoryTestOptions(SuiteOptions, frozen=True, kw_only=True):
    """Feed each conversation to each memory, message by message, and ask what it can answer by then.

    Results stand below .sage/benchmarks/benchmark_memory: one file for each conversation, with summary.json
    and curve.svg beside them. The same command continues a run that was interrupted.
    """

    command: ClassVar[str] = "memory test"
    examples: ClassVar[str] = """\
assay memory test --data examples/memory/talks.json --memory bm25 --no-answer
assay memory test --data locomo10.json --memory bm25,hybrid --references --model openai/NAME
assay memory test --data locomo10.json --memory my_memory.py:make --task-id conv-26 --model local/smollm2
assay memory test --data locomo10.json --memory bm25 --model openai/NAME --judge openai/JUDGE --votes 3
"""

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
