"""The options that `assay memory test` and `assay memory eval` share."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, field

from assay.core.spec import SuiteOptions, ask


class MemoryOptions(SuiteOptions, frozen=True, kw_only=True):
    """Which models build a memory, answer from it and embed texts; which options the memories get; how often."""

    build_model: Annotated[
        str, ask("Model that memories ask while they store and search, as PROVIDER/NAME.  [default: --model]")
    ] = ""
    answer_model: Annotated[str, ask("Model that answers the questions, as PROVIDER/NAME.  [default: --model]")] = ""
    embedder: Annotated[
        str,
        ask("Embeddings for memories that use vectors: wordllama, FILE.py:load, or PROVIDER/NAME of an endpoint."),
    ] = "wordllama"
    memory_args: Annotated[
        dict[str, Any],
        ask("Options for the memories as key=value,key=value. Each memory takes the ones it knows."),
    ] = field(default_factory=dict)
    repeats: Annotated[
        int,
        ask("Build each memory that calls a model N times with other seeds, and report the spread of the scores."),
        Meta(ge=1),
    ] = 1
    answer_kwargs: Annotated[
        dict[str, Any],
        ask("Parameters of the requests for answers only. They override --gen-kwargs.", params=True),
    ] = field(default_factory=dict)
    build_kwargs: Annotated[
        dict[str, Any],
        ask("Parameters of the requests that memories make. They override --gen-kwargs.", params=True),
    ] = field(default_factory=dict)
    embedder_kwargs: Annotated[
        dict[str, Any],
        ask("Parameters of the requests for embeddings, such as dimensions=256.", params=True),
    ] = field(default_factory=dict)
