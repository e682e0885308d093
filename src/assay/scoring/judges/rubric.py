"""Judge `rubric`: passes or fails a text by a rubric in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.core.errors import ModelError
from assay.core.hashing import fingerprint
from assay.core.protocols import Asker
from assay.core.types import Request, Response
from assay.language import prompts
from assay.scoring.json_text import read_json
from assay.scoring.judge_prompt import refusal_reason, unique_marker, unreadable_reply
from assay.scoring.judges import RubricVerdict

VERSION = "rubric.v1"

# The prompt asks for the reason before the verdict: a model writes from left to right, so its verdict can follow
# from its reason. 1024 tokens leave room for the reason.
_PARAMS = {"temperature": 0, "max_tokens": 1024}
_PROMPT = Path(__file__).with_name(f"{VERSION}.txt")


class RubricJudge:
    """Asks once, at temperature 0. Only a reply in the exact format counts as a verdict.

    `params` are those of --judge-kwargs. They are sent by the role of the judge; here they only tell judges apart.
    """

    def __init__(self, params: Mapping[str, Any] | None = None) -> None:
        self._params = dict(params or {})

    @property
    def fingerprint(self) -> str:
        """Version of the prompt, sha256 of its file, and the user's parameters if there are any."""
        prompt = prompts.prompt_version(VERSION, _PROMPT)
        return f"{prompt}+{fingerprint(self._params)}" if self._params else prompt

    def request(self, asker: Asker, rubric: str, text: str, reference: str | None = None) -> Request:
        """Return the request. Equal arguments give equal requests, so that the log can answer a repeated one."""
        parts = prompts.read_parts(_PROMPT)
        values = {
            "mark": unique_marker(rubric, text, reference or ""),
            "rubric": rubric,
            "text": text,
            "reference": "",
        }
        if reference is not None:
            values["reference"] = prompts.fill(parts["reference"], {**values, "reference": reference})
        messages = [{"role": role, "content": prompts.fill(parts[role], values)} for role in ("system", "user")]
        return Request(model=asker.name, endpoint=asker.endpoint, messages=messages, params=dict(_PARAMS))

    async def judge(self, asker: Asker, rubric: str, text: str, reference: str | None = None) -> RubricVerdict:
        """Return the verdict on one text. Raises ModelError if the call failed.

        The verdict is invalid if the reply is not in the format, if the judge refuses to answer, or if the text
        is too long for its context.
        """
        try:
            response = await asker.ask(self.request(asker, rubric, text, reference))
        except ModelError as error:
            return RubricVerdict(None, refusal_reason(error), "invalid")
        return read_verdict(response)


def build() -> RubricJudge:
    """Return the judge with its own parameters."""
    return RubricJudge()


def read_verdict(response: Response) -> RubricVerdict:
    """Read the verdict from a JSON object with `passed`, which may be in a code fence. Else it is invalid."""
    try:
        reply: Any = read_json(response.text)
    except ValueError as error:
        return _invalid(response, f"the reply is not one JSON object ({error})")
    if not isinstance(reply, dict):
        return _invalid(response, "the reply is not a JSON object")
    if not isinstance(reply.get("passed"), bool):
        return _invalid(response, "`passed` is not true or false")
    reason = reply.get("reason", "")
    if not isinstance(reason, str):
        return _invalid(response, "`reason` is not a text")
    return RubricVerdict(reply["passed"], reason)


def _invalid(response: Response, problem: str) -> RubricVerdict:
    return RubricVerdict(None, unreadable_reply(response, problem), "invalid")
