"""The options of `assay memory eval`."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, field

from assay.core.spec import Options, ask, how, score


class MemoryEvalOptions(Options, frozen=True, kw_only=True):
    """What a memory evaluation can be told besides the common options."""

    dataset: Annotated[str, ask("A sample's JSON file, or a folder of them.", content=True)] = ""
    baseline: Annotated[list[str], ask("Memories to evaluate, such as FUMemory,bm25 or FILE.py:Name.")] = (
        field(default_factory=list)
    )
    memory_args: Annotated[
        dict[str, Any], ask("Options of the memories, as key=value,key=value; each takes those it has.")
    ] = field(default_factory=dict)
    embedder: Annotated[str, ask("Embeds texts for memories that need it.")] = "wordllama"
    top_k: Annotated[int, ask("Items that a memory may give for a question."), Meta(ge=1)] = 5
    max_sessions: Annotated[
        Annotated[int, Meta(ge=1)] | None, ask("Only the first sessions of each sample.")
    ] = None
    sample: Annotated[list[str], ask("Only these samples, by their ids.")] = field(default_factory=list)
    smoke: Annotated[bool, ask("Only the first sample.")] = False
    answer_prompt: Annotated[str, ask("A prompt file in place of the shipped one.", content=True)] = ""
    eval_only: Annotated[
        bool, how("Judge the two pipeline files of --output-dir; nothing else is asked.")
    ] = False
    judge_base_url: Annotated[str | None, how("Endpoint of the judge; else that of the model.")] = None
    no_judge: Annotated[bool, score("Only compare words; judge nothing.")] = False
    samples: Annotated[int, how("Samples that are open at once."), Meta(ge=1)] = 16
