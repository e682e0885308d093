"""A Hugging Face model in memory: tokens, likelihoods and generation as lm-evaluation-harness computes them.

Runs in the child process only; this is the one module that imports torch and transformers. The rules are those of the
harness's `hf` model: which special tokens are added, where a long prompt is cut, how stops end a reply. There is one
difference: nothing here depends on which requests share a batch. The harness decides about the BOS token by the first
prompt of a batch, and lets a finished reply run on until the whole batch has met the same stop.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

from assay.core.errors import ModelError
from assay.core.types import Failure
from assay.models.likelihood import spans
from assay.models.likelihood.spans import Ids, TokenSpan
from assay.models.transformers.jobs import (
    GenerateJob,
    GenerationPlan,
    Job,
    LoadProblem,
    MeasureJob,
    describe_error,
    row_of,
)
from assay.models.transformers.protocol import (
    GenerateText,
    LoadModel,
    MeasureText,
    ModelLoaded,
    TextGenerated,
    TextMeasured,
)

# The harness's context length if neither the model nor the tokenizer tells one.
DEFAULT_MAX_LENGTH = 2048
# What a tokenizer reports as its longest input if it has no limit.
_NO_LIMIT = 10**12


class TransformersEngine:
    """A tokenizer and a model. Raises LoadProblem if they cannot be loaded."""

    def __init__(self, settings: LoadModel) -> None:
        self._settings = settings
        self._torch, self._transformers = _import_packages()
        self._device = self._choose_device()
        try:
            config = self._transformers.AutoConfig.from_pretrained(
                settings.folder, trust_remote_code=settings.trust_remote_code
            )
            self._refuse_encoder_decoder(config)
            self._tokenizer = self._load_tokenizer()
            self._model = self._load_model()
        except (LoadProblem, ModelError):
            raise
        except Exception as error:
            raise self._load_problem(error) from error
        self._prefix_text = self._tokenizer.decode(self._prefix_token())
        eos = self._tokenizer.eos_token_id
        self._eos_text: str | None = None if eos is None else self._tokenizer.decode(eos)
        self._max_length = settings.max_length or self._own_max_length()
        dtype = str(self._model.dtype).removeprefix("torch.")
        self.loaded = ModelLoaded(str(self._device), dtype, self._max_length)

    # Loading

    def _choose_device(self) -> Any:
        torch = self._torch
        name = self._settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            device = torch.device(name)
            torch.zeros(1, device=device)
        except Exception as error:
            raise LoadProblem(f"the device {name!r} cannot be used: {describe_error(error)}") from error
        return device

    def _refuse_encoder_decoder(self, config: Any) -> None:
        if config.is_encoder_decoder:
            raise LoadProblem(
                f"{self._settings.folder} is an encoder-decoder model ({config.model_type}). hf/PATH runs models that "
                "continue a text (AutoModelForCausalLM)"
            )

    def _load_tokenizer(self) -> Any:
        settings = self._settings
        kwargs: dict[str, Any] = {
            "trust_remote_code": settings.trust_remote_code,
            "use_fast": settings.use_fast_tokenizer,
        }
        if settings.add_bos_token is not None:
            kwargs["add_bos_token"] = settings.add_bos_token
        tokenizer = self._transformers.AutoTokenizer.from_pretrained(settings.tokenizer, **kwargs)
        if tokenizer.pad_token_id is None:
            # The pad token is masked, so any will do. A special one is left out of the reply.
            if tokenizer.unk_token_id is not None:
                tokenizer.pad_token_id = tokenizer.unk_token_id
            elif tokenizer.eos_token_id is not None:
                tokenizer.pad_token_id = tokenizer.eos_token_id
            else:
                tokenizer.add_special_tokens({"pad_token": "<|pad|>"})
        return tokenizer

    def _load_model(self) -> Any:
        settings = self._settings
        dtype = "auto" if settings.dtype == "auto" else getattr(self._torch, settings.dtype)
        model = self._transformers.AutoModelForCausalLM.from_pretrained(
            settings.folder, dtype=dtype, trust_remote_code=settings.trust_remote_code, local_files_only=True
        )
        if settings.peft:
            model = self._add_adapter(model)
        model.to(self._device)
        model.eval()
        return model

    def _add_adapter(self, model: Any) -> Any:
        try:
            from peft import PeftModel
        except ImportError as error:
            raise LoadProblem("peft=… needs the package peft: pip install peft") from error
        # An adapter may have been trained with more tokens than the model has.
        if model.get_input_embeddings().num_embeddings != len(self._tokenizer):
            model.resize_token_embeddings(len(self._tokenizer))
        return PeftModel.from_pretrained(model, self._settings.peft)

    def _load_problem(self, error: Exception) -> LoadProblem:
        folder = self._settings.folder
        if self.is_out_of_memory(error):
            return LoadProblem(
                f"the model {folder} does not fit into the memory of {self._device}: {describe_error(error)}. "
                "Try dtype=bfloat16, or a smaller model"
            )
        text = str(error)
        if "trust_remote_code" in text:
            return LoadProblem(
                f"the model {folder} brings its own Python code. Read it, and pass "
                "--model-args trust_remote_code=True if it may run"
            )
        return LoadProblem(f"transformers cannot load {folder}: {describe_error(error)}")

    def _own_max_length(self) -> int:
        config = self._model.config.get_text_config()
        for name in ("n_positions", "max_position_embeddings", "n_ctx"):
            length = getattr(config, name, None)
            if length is not None:
                return int(length)
        length = self._tokenizer.model_max_length
        return DEFAULT_MAX_LENGTH if length is None or length > _NO_LIMIT else int(length)

    # Tokens

    def _prefix_token(self) -> int:
        """Return the token that precedes a text without a prompt: BOS, else EOS."""
        candidates = (
            self._settings.prefix_token_id,
            self._tokenizer.bos_token_id,
            self._tokenizer.eos_token_id,
        )
        for token in candidates:
            if token is not None:
                return int(token)
        raise LoadProblem(
            f"the tokenizer in {self._settings.tokenizer} has no BOS and no EOS token. Name the id of the token before "
            "a text: --model-args prefix_token_id=N"
        )

    def _encode(self, text: str, bos: str | None) -> Ids:
        """Return the tokens of a text. Special tokens are added unless it begins with `bos`."""
        kwargs: dict[str, Any] = {}
        if bos is not None and text.startswith(bos):
            kwargs["add_special_tokens"] = False
        elif self._settings.add_bos_token is not None:
            kwargs["add_special_tokens"] = self._settings.add_bos_token
        ids: Ids = self._tokenizer.encode(text, **kwargs)
        return ids

    def prepare(self, message: GenerateText | MeasureText) -> Job:
        """Tokenize a request. Raises ModelError if it cannot be computed."""
        if isinstance(message, MeasureText):
            return MeasureJob(message, self._spans(message.prompt, message.continuation))
        plan = GenerationPlan(message.params, self._max_length)
        room = self._max_length - plan.new_tokens
        if room <= 0:
            text = (
                f"a reply of up to {plan.new_tokens} tokens leaves no room for the prompt in the context of "
                f"{self._max_length}. Lower max_gen_toks, or raise max_length in --model-args"
            )
            raise ModelError(Failure("rejected", text))
        prompt = message.prompt if message.messages is None else self._apply_template(message.messages)
        ids = self._encode(prompt or "", self._tokenizer.bos_token)
        # transformers cannot generate after nothing. The harness fails here too.
        ids = ids or [self._prefix_token()]
        return GenerateJob(message, ids[-room:], plan, cut=len(ids) > room)

    def _spans(self, prompt: str | None, continuation: str) -> list[TokenSpan]:
        if prompt is None:
            ids = self._encode(continuation, self._prefix_text)
            return list(spans.rolling_windows(ids, self._prefix_token(), self._max_length)) if ids else []
        if prompt == "":
            ids = self._tokenizer.encode(continuation, add_special_tokens=False)
            span = spans.span_after_prefix(ids, self._prefix_token()) if ids else TokenSpan([], [])
        else:
            prompt, continuation = spans.move_trailing_space(prompt, continuation)
            # A prompt of white space alone has no tokens of its own without BOS.
            before = self._encode(prompt, self._prefix_text)
            span = spans.span_after_prompt(before, self._encode(prompt + continuation, self._prefix_text))
            span = span if span.context else TokenSpan([self._prefix_token()], span.scored)
        # One token more than the context: the last one is scored, but it is no input.
        return [spans.truncate_left(span, self._max_length + 1)] if span.scored else []

    def _apply_template(self, messages: list[dict[str, Any]]) -> str:
        """Return the prompt for messages. An assistant's message at the end is continued."""
        from jinja2 import TemplateError

        turns = [{**message, "content": _text_content(message.get("content"))} for message in messages]
        continues = bool(turns) and turns[-1].get("role") == "assistant"
        kwargs: dict[str, Any] = {
            "tokenize": False,
            "add_generation_prompt": not continues,
            "continue_final_message": continues,
            **self._settings.chat_template_args,
        }
        try:
            prompt = self._tokenizer.apply_chat_template(turns, **kwargs)
        except TemplateError:
            # Some templates refuse the system role. Like the harness, leave it out then.
            turns = [turn for turn in turns if turn.get("role") != "system"]
            prompt = self._tokenizer.apply_chat_template(turns, **kwargs)
        return str(prompt)

    # Computing

    def compute(
        self, jobs: Sequence[Job], limit: int, is_cancelled: Callable[[int], bool]
    ) -> list[TextGenerated | TextMeasured]:
        """Compute jobs of one group, at most `limit` rows at a time. Returns their results in order."""
        results: list[TextGenerated | TextMeasured] = []
        with self._torch.no_grad():
            generate_jobs = [job for job in jobs if isinstance(job, GenerateJob)]
            if generate_jobs:
                results += self._generate(generate_jobs, is_cancelled)
            measure_jobs = [job for job in jobs if isinstance(job, MeasureJob)]
            if measure_jobs:
                results += self._measure(measure_jobs, limit)
        return results

    def _measure(self, jobs: list[MeasureJob], limit: int) -> list[TextMeasured]:
        """Compute every different row once, long ones first, and read all spans from them."""
        needed: dict[tuple[int, ...], int] = {}
        for job in jobs:
            for span in job.spans:
                row = row_of(span)
                needed[row] = max(needed.get(row, 0), len(span.scored))
        ordered = sorted(needed, key=lambda row: (-len(row), row))
        logprobs: dict[tuple[int, ...], Any] = {}
        for start in range(0, len(ordered), limit):
            logprobs |= self._forward(ordered[start : start + limit], needed)
        results = []
        for job in jobs:
            values = [self._read_span(span, logprobs[row_of(span)]) for span in job.spans]
            results.append(
                TextMeasured(
                    job.id,
                    spans.sum_in_order(logprob for logprob, _ in values),
                    not job.rolling and all(greedy for _, greedy in values),
                    sum(len(span.context) for span in job.spans),
                    sum(len(span.scored) for span in job.spans),
                )
            )
        return results

    def _forward(self, rows: list[tuple[int, ...]], needed: dict[tuple[int, ...], int]) -> dict[tuple[int, ...], Any]:
        """Return the log-probabilities at the end of each row: as many positions as are needed, whole vocabulary.

        Rows are padded on the right, where a causal model does not look, so there is no attention mask.
        """
        torch = self._torch
        width = max(map(len, rows))
        batch = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], device=self._device)
        logits = self._model(batch).logits
        softmax_dtype = getattr(torch, self._settings.softmax_dtype) if self._settings.softmax_dtype else None
        results = {}
        for row, row_logits in zip(rows, logits, strict=True):
            # Adapters may put tokens of their own before the row.
            end = len(row) + row_logits.shape[0] - width
            scored = row_logits[end - needed[row] : end]
            results[row] = torch.nn.functional.log_softmax(scored, dim=-1, dtype=softmax_dtype)
        return results

    def _read_span(self, span: TokenSpan, logprobs: Any) -> tuple[float, bool]:
        torch = self._torch
        scored = torch.tensor(span.scored, device=self._device)
        logprobs = logprobs[-len(span.scored) :]
        values = torch.gather(logprobs, 1, scored.unsqueeze(-1)).squeeze(-1)
        return float(values.sum()), bool((logprobs.argmax(dim=-1) == scored).all())

    def _generate(self, jobs: list[GenerateJob], is_cancelled: Callable[[int], bool]) -> list[TextGenerated]:
        """Generate replies to prompts, padded on the left."""
        torch = self._torch
        plan = jobs[0].plan
        stops = list(plan.stops)
        if self._eos_text and self._eos_text not in stops:
            stops.append(self._eos_text)
        if plan.samples:
            torch.manual_seed(jobs[0].seed % 2**63)
        pad = self._tokenizer.pad_token_id
        width = max(job.length for job in jobs)
        ids = torch.tensor([[*[pad] * (width - job.length), *job.ids] for job in jobs], device=self._device)
        mask = torch.tensor([[*[0] * (width - job.length), *[1] * job.length] for job in jobs], device=self._device)
        tracker = _StopTracker(self._torch, self._tokenizer, stops, width, [job.id for job in jobs], is_cancelled)
        output = self._model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=plan.new_tokens,
            # generation_config.json may have a max_length, which would be reported as a conflict.
            max_length=None,
            stopping_criteria=self._transformers.StoppingCriteriaList([tracker]),
            pad_token_id=pad,
            use_cache=True,
            **plan.arguments,
        )
        ends = self._end_tokens()
        results = []
        for job, tokens, stopped_at in zip(jobs, output[:, width:].tolist(), tracker.ends, strict=True):
            end = next((n for n, token in enumerate(tokens, 1) if token in ends), None)
            count = min(n for n in (len(tokens), end, stopped_at) if n is not None)
            finished = count < plan.new_tokens or count in (end, stopped_at)
            text, reasoning = self._read_reply(tokens[:count], stops)
            results.append(
                TextGenerated(job.id, text, "stop" if finished else "length", job.length, count, reasoning, job.cut)
            )
        return results

    def _end_tokens(self) -> set[int]:
        """Return the tokens after which transformers ends a reply. A model may have several."""
        ends = self._model.generation_config.eos_token_id
        return set(ends if isinstance(ends, list) else [ends]) - {None}

    def _read_reply(self, tokens: Ids, stops: list[str]) -> tuple[str, str]:
        """Return the text of a reply before its first stop, and its reasoning if `think_end_token` ends one."""
        think_end = self._settings.think_end_token
        reasoning = ""
        if isinstance(think_end, int) and think_end in tokens:
            end = len(tokens) - tokens[::-1].index(think_end)
            reasoning = self._tokenizer.decode(tokens[: end - 1], skip_special_tokens=True)
            text = self._tokenizer.decode(tokens[end:], skip_special_tokens=True).lstrip()
        else:
            text = self._tokenizer.decode(tokens, skip_special_tokens=True)
            if isinstance(think_end, str) and think_end in text:
                reasoning, _, text = text.rpartition(think_end)
                text = text.lstrip()
        for stop in stops:
            text = text.partition(stop)[0]
        return text, reasoning.strip()

    # Memory

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Return whether torch could not allocate memory. On CPUs it raises a plain RuntimeError."""
        text = str(error).lower()
        return isinstance(error, (self._torch.OutOfMemoryError, MemoryError)) or (
            isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)
        )

    def free_memory(self) -> None:
        """Return cached memory to the device after a failure."""
        gc.collect()
        if self._torch.cuda.is_available():
            self._torch.cuda.empty_cache()


class _StopTracker:
    """Ends each reply of a batch at its own first stop, or when it is cancelled. `ends` counts its tokens then."""

    def __init__(
        self,
        torch: Any,
        tokenizer: Any,
        stops: list[str],
        prompt_width: int,
        request_ids: list[int],
        is_cancelled: Callable[[int], bool],
    ) -> None:
        self._torch = torch
        self._tokenizer = tokenizer
        self._stops = stops
        self._width = prompt_width
        self._request_ids = request_ids
        self._is_cancelled = is_cancelled
        self.ends: list[int | None] = [None] * len(request_ids)
        lengths = [len(tokenizer.encode(stop, add_special_tokens=False)) for stop in stops]
        # Two tokens more than the longest stop has: the model may write a stop in other tokens.
        self._look_back = max(lengths, default=0) + 2

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        """Return which rows are done. Called by transformers after each token."""
        rows = input_ids.shape[0]
        # Beam search has several rows for each request. Its replies are cut at the stops afterwards.
        if rows != len(self.ends):
            return self._torch.zeros(rows, dtype=self._torch.bool, device=input_ids.device)
        open_rows = [row for row, end in enumerate(self.ends) if end is None]
        tail = input_ids[:, self._width :][:, -self._look_back :].tolist()
        texts = self._tokenizer.batch_decode([tail[row] for row in open_rows])
        count = input_ids.shape[1] - self._width
        for row, text in zip(open_rows, texts, strict=True):
            if any(stop in text for stop in self._stops) or self._is_cancelled(self._request_ids[row]):
                self.ends[row] = count
        done = [end is not None for end in self.ends]
        return self._torch.tensor(done, device=input_ids.device)


def _text_content(content: Any) -> Any:
    """Return the text of a message whose content is a list of parts. Other content stays as it is."""
    if not isinstance(content, list):
        return content
    parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    if len(parts) != len(content):
        raise ModelError(Failure("rejected", "hf/PATH takes text only; a message has a part of another type"))
    return "".join(map(str, parts))


def _import_packages() -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise LoadProblem(
            f"the provider 'hf' cannot import its packages ({describe_error(error)}): pip install 'assay[transformers]'"
        ) from error
    transformers.logging.set_verbosity_error()
    return torch, transformers
