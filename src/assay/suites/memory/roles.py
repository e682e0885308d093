"""The models of a memory suite by purpose: one builds the memory, one answers from it, one embeds texts."""

from __future__ import annotations

from assay.core.errors import UsageError
from assay.core.roles import CHAT, EMBEDDINGS, Role
from assay.core.spec import RunSpec
from assay.suites.memory.options import MemoryOptions

ANSWER_ROLE, BUILD_ROLE, EMBEDDER_ROLE = "answer", "build", "embedder"


def answer_model(spec: RunSpec, options: MemoryOptions) -> str:
    """Return the model that answers questions: --answer-model, else --model. Empty if neither is given."""
    return options.answer_model or spec.model


def build_model(spec: RunSpec, options: MemoryOptions) -> str:
    """Return the model that memories ask: --build-model, else --model. Empty if neither is given."""
    return options.build_model or spec.model


def memory_roles(
    spec: RunSpec, options: MemoryOptions, *, answers: bool, asking: str, instead: str = ""
) -> dict[str, Role]:
    """Return the models of a run, each with its parameters.

    `answers` says whether questions are answered. `asking` names the memories that call a model, if there are any.
    Raises UsageError if a model is needed and not named. `instead` says how to do without a model that answers.
    """
    needs = frozenset({CHAT})
    roles: dict[str, Role] = {}
    answer, build = answer_model(spec, options), build_model(spec, options)
    if answers:
        if not answer:
            raise UsageError(
                f"--model is missing. Name the model that answers with --model or --answer-model{instead}."
            )
        # First: new cases wait for the permits of the first role.
        roles[ANSWER_ROLE] = Role(answer, params=spec.gen_kwargs | options.answer_kwargs, needs=needs)
    elif options.answer_model:
        raise UsageError("--answer-model has no effect: --no-answer asks for no answers. Remove one of them.")
    if asking and not build:
        raise UsageError(
            f"--model is missing: {asking} calls a model to store or search. Name it with --model or --build-model."
        )
    # A memory in a user's file may call the model without saying so in its ABOUT.
    if build:
        roles[BUILD_ROLE] = Role(build, params=spec.gen_kwargs | options.build_kwargs, sdk_params=None, needs=needs)
    if is_endpoint(options.embedder):
        roles[EMBEDDER_ROLE] = Role(options.embedder, params=options.embedder_kwargs, needs=frozenset({EMBEDDINGS}))
    elif options.embedder_kwargs:
        raise UsageError(
            f"--embedder-kwargs has no effect: {options.embedder} sends no requests. Name an endpoint with --embedder."
        )
    return roles


def is_endpoint(embedder: str) -> bool:
    """Return whether an embedder is PROVIDER/NAME of an endpoint, and not a name or a file of this machine."""
    return "/" in embedder and ".py:" not in embedder
