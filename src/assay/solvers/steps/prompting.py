"""A step that asks a model: a template becomes a message, the reply is parsed."""

from __future__ import annotations

import time
from typing import Any

from msgspec import Struct

from assay.core.errors import ModelError
from assay.core.templates import Template, TemplateProblem
from assay.core.types import Request
from assay.solvers.steps.failing import StepFailed
from assay.solvers.steps.parsing import Parser
from assay.solvers.steps.running import Runner, StepContext


class PromptStep(Struct, frozen=True, kw_only=True):
    """`role` says which model of the run answers. Missing variables take `defaults`."""

    role: str
    template: Template
    parse: Parser
    system: Template | None = None
    params: dict[str, Any] = {}
    defaults: dict[str, Any] = {}

    async def run(self, values: dict[str, Any], ctx: StepContext) -> Any:
        """Ask once; a refusal, and what cannot be parsed, fails the step. An endpoint's failure passes."""
        asker = ctx.case.model(self.role)
        request = Request(
            model=asker.name, endpoint=asker.endpoint, messages=self._messages(values), params=self.params
        )
        started = time.perf_counter()
        try:
            call = await asker.call(request)
        except ModelError as error:
            if error.failure.status == "subject_error":  # the model's own word: other items and steps go on
                raise StepFailed(error.failure.message, error.failure.kind) from None
            raise
        ctx.meter.add(call, time.perf_counter() - started)
        assert call.response is not None
        return self.parse(call.response.text)

    def _messages(self, values: dict[str, Any]) -> list[dict[str, Any]]:
        known = {**self.defaults, **values} if self.defaults else values
        try:
            user = {"role": "user", "content": self.template.render(known)}
            if self.system is None:
                return [user]
            return [{"role": "system", "content": self.system.render(known)}, user]
        except TemplateProblem as problem:
            raise StepFailed(str(problem), "template") from None

    def adapted(self, told: dict[str, Any]) -> Runner:
        """What a test gives a prompt are values for its template."""
        return self
