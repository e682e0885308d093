"""A choice of a tool: it is offered, it has the arguments it needs, and others would choose it too."""

from __future__ import annotations

from collections.abc import Mapping

from assay.solvers.hop.tools import Tool, problem_of
from assay.solvers.hop.verifiers import Ask, Subject, Verdict, Verifier, cross, failed


def among(tools: Mapping[str, Tool]) -> Verifier:
    """The verifier for these tools. What can be seen without a call is looked at first."""

    async def verify(subject: Subject, ask: Ask) -> Verdict:
        if problem := problem_of(subject.result, tools):
            return failed(problem)
        return await cross.verify(subject, ask)

    return verify
