"""The options of `assay memory test`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, field

from assay.core.spec import SuiteOptions, ask, how


class MemoryTestOptions(SuiteOptions, frozen=True, kw_only=True):
    """Insert conversations into memories, two messages at a time, and test the questions that can be answered so far.

    Results stand below .sage/benchmarks/benchmark_memory: one file for each conversation, with summary.json
    and curve.svg beside them. The same command continues a run that was interrupted.
    """

    command: ClassVar[str] = "memory test"
    # Where SAGE has its files.
    default_output: ClassVar[str] = ".sage/benchmarks/benchmark_memory"
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
        ask(
            "When to test. `increment`: after every N newly answerable questions, N = questions // segments. "
            "`segments`: at each 1/segments of all questions."
        ),
    ] = "increment"
    segments: Annotated[int, ask("Number of parts that the questions are cut into."), Meta(ge=1)] = 10
    final_test: Annotated[
        bool, ask("Run a final test after the last message if some question was never asked.")
    ] = True
    top_k: Annotated[int, ask("Number of items to retrieve per question."), Meta(ge=1)] = 10
    no_answer: Annotated[bool, ask("Only search: no model answers, retrieval is scored.")] = False
    conversations: Annotated[
        int, how("Conversations that run at once.", flags=["--conversations", "--open-cases"]), Meta(ge=1)
    ] = 8
