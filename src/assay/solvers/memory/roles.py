"""The models of a memory evaluation by purpose: one builds the memory, one answers from it, one embeds texts."""

from __future__ import annotations

from typing import Any

from assay.core.connect import CHAT, Role
from assay.core.spec import RunSpec

ANSWER_ROLE, BUILD_ROLE, EMBEDDER_ROLE = "answer", "build", "embedder"


def memory_roles(
    spec: RunSpec, answer_kwargs: dict[str, Any], build_kwargs: dict[str, Any], *, answers: bool = True
) -> dict[str, Role]:
    """Return the roles of `--model`, each with its parameters. Without `answers` there is only the role that builds."""
    needs = frozenset({CHAT})
    roles = {BUILD_ROLE: Role(spec.model, params=spec.gen_kwargs | build_kwargs, needs=needs)}
    if answers:
        # First: new cases wait for the permits of the first role.
        answer = Role(spec.model, params=spec.gen_kwargs | answer_kwargs, needs=needs)
        return {ANSWER_ROLE: answer, **roles}
    return roles
