"""Prompts and stops of generated text, sent to `/completions` as lm-evaluation-harness sends them.

    prompts = HarnessPrompts(tokenizer, args)
    if prompts.may_change(request):
        body |= await prompts.fields(request)

With a tokenizer the harness cuts a prompt from the left, so that prompt and reply fit into `max_length` tokens. Without
one it cuts nothing. With `lm_eval_requests` the rest is sent as the harness sends it too: every prompt as token ids,
more than four stop strings, and the tokenizer's EOS among them.
"""

from __future__ import annotations

from typing import Any

from assay.core.types import Request
from assay.models.likelihood.endpoint import CompletionsArgs, RemoteTokenizer

# The harness's limit of a reply if the task has none.
_DEFAULT_LIMIT = 256


class HarnessPrompts:
    """Changes requests for generated text at one endpoint, by --model-args.

    `cut_prompts` cuts prompts that are too long. `lm_eval_requests` sends all else as the harness does; `stop_at_eos`
    False leaves the EOS out of the stops.
    """

    def __init__(self, tokenizer: RemoteTokenizer, args: CompletionsArgs) -> None:
        self._tokenizer = tokenizer
        self._max_tokens = args.max_tokens
        self._send_ids = args.tokenized_requests and args.has_tokenizer is not False
        self._names_length = args.max_length is not None
        self._as_harness = args.lm_eval_requests
        self._cuts = self._as_harness or args.cut_prompts
        self._adds_eos = args.stop_at_eos

    def may_change(self, request: Request) -> bool:
        """Return whether `fields` may change the request or has a note. A short prompt needs no tokenizer."""
        return self._as_harness or (self._cuts and self._may_be_too_long(request))

    async def fields(self, request: Request) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return the fields of the body that replace those of the request, and texts for `Response.adapted`."""
        fields: dict[str, Any] = {}
        notes: tuple[str, ...] = ()
        room = self._room(request)
        if not self._as_harness and room <= 0:
            # The harness takes `ids[-room:]` also then, which loses the first tokens: of a short prompt, all.
            notes = self._not_cut("it leaves no room beside the limit of the reply")
        elif self._send_ids and await self._tokenizer.is_available():
            ids = await self._tokenizer.tokenize(request.prompt or "")
            kept = ids[-room:]
            if self._as_harness or len(kept) < len(ids):
                fields["prompt"] = [kept]
            if len(kept) < len(ids):
                # The same text for all prompts of a task, because each text is told once.
                change = f"cut to {room} tokens" if room > 0 else f"without their first {-room} tokens"
                notes = (f"prompts {change}: max_length, less the limit of the reply",)
        elif self._may_be_too_long(request):
            notes = self._not_cut("no tokenizer is used")
        if self._as_harness:
            stops = list(request.params.get("stop") or ())
            eos = self._tokenizer.eos_text if self._adds_eos else None
            if eos is not None and eos not in stops:
                stops.append(eos)
            fields["stop"] = stops
        return fields, notes

    def _may_be_too_long(self, request: Request) -> bool:
        """Return whether the prompt may have too many tokens. A token has at least one byte."""
        return self._room(request) < len((request.prompt or "").encode())

    def _not_cut(self, reason: str) -> tuple[str, ...]:
        return (f"prompts not cut at max_length: {reason}",) if self._names_length else ()

    def _room(self, request: Request) -> int:
        """Return the number of tokens that the prompt may have."""
        limit = request.params.get("max_tokens") or request.params.get("max_completion_tokens")
        return self._max_tokens - (limit if isinstance(limit, int) else _DEFAULT_LIMIT)
