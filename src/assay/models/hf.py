"""Provider `hf/PATH`: a Hugging Face model in a child process, computed by transformers and torch.

`hf/PATH` is a folder as `save_pretrained` writes it. `hf/ORG/NAME` is a model in the cache of huggingface_hub; nothing
is downloaded during a run. Likelihoods and greedy replies equal those of lm-evaluation-harness's `--model hf`, and
--model-args has its names.

The child starts with the first request and computes the requests in flight in batches. A reply does not depend on the
others of its batch, except for the rounding of floating-point numbers.
"""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import asdict

from assay.core.errors import MissingExtra, ModelError, UsageError
from assay.core.events import notice
from assay.core.hashing import fingerprint
from assay.core.roles import CHAT, LIKELIHOOD, TEXT, About, Connection
from assay.core.types import Failure, Request, Response, Usage
from assay.models.likelihood import spans
from assay.models.transformers.process import COMMAND, PATIENCE_SECONDS, ModelProcess
from assay.models.transformers.protocol import GenerateText, LoadModel, MeasureText, TextGenerated
from assay.models.weights.files import check_folder, find_folder, has_chat_template, hash_folders
from assay.usercode.model_args import Count, CountOrZero, Word, read_args

# Arguments of the harness that would change the numbers if they were ignored, with the reason for refusing them.
_REFUSED = {
    "parallelize": "the model runs on one device. For a model that needs several GPUs use vllm/PATH",
    "tp_plan": "the model runs on one device. For a model that needs several GPUs use vllm/PATH",
    "device_map": "the model runs on one device; name it with device=cuda:0",
    "delta": "add the delta weights to the model once, and save it as a folder",
    "autogptq": "only models that transformers loads by itself are supported",
    "gptqmodel": "only models that transformers loads by itself are supported",
    "gguf_file": "a GGUF file runs with local/PATH.gguf",
    "load_in_8bit": "only models that are stored in their final type are supported; see dtype",
    "load_in_4bit": "only models that are stored in their final type are supported; see dtype",
    "mixed_precision_dtype": "set the type of the whole model with dtype",
    "truncation": "prompts are cut on the left, at max_length minus the tokens of the reply",
    "subfolder": "name the folder itself: hf/PATH/SUBFOLDER",
}
# Values with which a refused argument has no effect.
_OFF = (None, False, "", "False", "false", "None")
_DType = Literal["float32", "float16", "bfloat16", "float64", "float", "half", "double"]
_DEVICE = r"^(cpu|cuda|mps|npu|xpu|hpu)(:\d+)?$"


class HfArgs(Struct, frozen=True, forbid_unknown_fields=True):
    """--model-args of `hf/PATH`, with the harness's names."""

    pretrained: str | None = None
    """The model's name once more."""
    revision: Word | None = None
    backend: str | None = None
    tokenizer: Word | None = None
    peft: Word | None = None
    dtype: Literal["auto", _DType] | None = None
    softmax_dtype: _DType | None = None
    device: Annotated[str, Meta(pattern=_DEVICE, description="cpu, cuda, cuda:0 or mps")] | None = None
    batch_size: Word | None = None
    """The largest batch, or a text that begins with `auto`."""
    max_length: Count | None = None
    add_bos_token: bool | None = None
    prefix_token_id: CountOrZero | None = None
    trust_remote_code: bool = False
    use_fast_tokenizer: bool = True
    think_end_token: str | int | None = None
    enable_thinking: bool | None = None
    chat_template_args: dict[str, Any] | None = None
    # Accepted, without an effect here: equal inputs are always computed once, and auto batches follow --concurrency.
    logits_cache: Any = None
    max_batch_size: Any = None


ABOUT = About(
    summary="a Hugging Face model in a child process (transformers): a folder, or a name in the cache",
    needs="pip install 'assay[transformers]', and the model's files on disk",
    can=frozenset({CHAT, TEXT, LIKELIHOOD}),
    example="hf/PATH",
    args=frozenset(HfArgs.__struct_fields__) | _REFUSED.keys(),
    calls_endpoint=False,
    computes=True,
    takes_do_sample=True,
)
# Settings that do not change a reply, so they are no part of the model's identity. The folders are in by their content.
_NOT_IDENTITY = frozenset({"folder", "tokenizer", "peft", "device", "batch_size", "trust_remote_code"})
# A child that ends while it loads is started once more. A model that is too large for the memory takes minutes to fail.
_STARTS = 2


class HfModel:
    """A model in a child process of its own. A child that ends is started again with the next request."""

    def __init__(
        self,
        connection: Connection,
        command: tuple[str, ...] = COMMAND,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        """`command` starts the child process. One that hangs after a timeout is killed after `patience` seconds."""
        args = _read_args(connection.args)
        folder = find_folder(connection.name, str(args.revision or "main"))
        check_folder(folder)
        self._settings = _settings(args, connection, folder)
        tokenizer = Path(self._settings.tokenizer)
        self.can = ABOUT.can if has_chat_template(tokenizer) else ABOUT.can - {CHAT}
        adapters = [Path(self._settings.peft)] if self._settings.peft else []
        folders = list(dict.fromkeys([folder, tokenizer, *adapters]))  # the tokenizer is mostly beside the weights
        identity = {key: value for key, value in asdict(self._settings).items() if key not in _NOT_IDENTITY}
        self.endpoint = f"hf:{fingerprint([hash_folders(folders), identity])}"
        self._name = connection.name
        self._command = command
        self._timeout = connection.timeout
        self._concurrency = connection.concurrency
        self._process: ModelProcess | None = None
        self._start_lock = asyncio.Lock()
        self._patience = patience
        self._failed_starts = 0
        self._load_failure: Failure | None = None

    async def send(self, request: Request, seed: int) -> Response:
        """Generate one reply, or measure one likelihood. The first request loads the model."""
        rolling = request.prompt is None
        if request.continuation == "":
            return spans.build_response([spans.EMPTY_TEXT], rolling=rolling)
        process = await self._running_process()
        if request.continuation is not None:
            measure = MeasureText(process.next_id(), request.continuation, request.prompt)
            likelihood = await process.ask(measure, self._timeout)
            assert not isinstance(likelihood, TextGenerated)
            part = spans.MeasuredSpan(
                spans.Likelihood(likelihood.logprob, likelihood.greedy),
                Usage(likelihood.input, likelihood.output),
            )
            return spans.build_response([part], rolling=rolling)
        generate = GenerateText(process.next_id(), seed, request.prompt, request.messages, request.params)
        reply = await process.ask(generate, self._timeout)
        assert isinstance(reply, TextGenerated)
        adapted = ("prompt cut on the left to fit the context",) if reply.cut else ()
        usage = Usage(reply.input, reply.output)
        return Response(reply.text, reply.finish, usage, reasoning=reply.reasoning, adapted=adapted)

    async def close(self) -> None:
        """End the child process."""
        if self._process is not None:
            await self._process.stop()
            self._process = None

    @property
    def child_pid(self) -> int | None:
        """The id of the child process, or None before the first request."""
        return None if self._process is None else self._process.pid

    async def _running_process(self) -> ModelProcess:
        async with self._start_lock:
            # A model that cannot be loaded is not tried again for every request: that takes seconds each time.
            if self._load_failure is not None:
                raise ModelError(self._load_failure)
            if self._process is not None and not self._process.ended:
                return self._process
            if self._process is not None:
                await self._process.stop()
                notice(f"hf: the process of {self._name} has ended; it is started again")
            elif self._settings.trust_remote_code:
                notice(f"hf: trust_remote_code runs the Python code of the model in {self._settings.folder}")
            self._process = ModelProcess(self._command, self._settings, self._patience)
            try:
                loaded = await self._process.start()
            except ModelError as error:
                self._failed_starts += 1
                if error.retry and self._failed_starts < _STARTS:
                    raise
                self._load_failure = error.failure
                if error.retry:
                    message = f"{self._name} could not be loaded {_STARTS} times: {error.failure.message}"
                    # This kind halts the run whether or not the model has answered before.
                    self._load_failure = Failure("unreachable", message)
                raise ModelError(self._load_failure) from None
            self._failed_starts = 0
            size = self._settings.batch_size
            beyond = ""
            if size > self._concurrency:
                beyond = f", of which --concurrency {self._concurrency} allows {self._concurrency}"
            notice(
                f"hf: {self._name} is loaded on {loaded.device} ({loaded.dtype}, context {loaded.max_length}, "
                f"batches of up to {size}{beyond})"
            )
            return self._process


def connect(connection: Connection) -> HfModel:
    """Return the model `hf/PATH`. Hashes its files but does not load them."""
    # find_spec does not import the packages: that takes seconds, and only the child needs them.
    if find_spec("torch") is None or find_spec("transformers") is None:
        raise MissingExtra("the provider 'hf'", "transformers")
    return HfModel(connection)


def _read_args(args: dict[str, Any]) -> HfArgs:
    """Read --model-args. Refuses those of the harness that would change the numbers if they were ignored."""
    for name, reason in _REFUSED.items():
        if args.get(name) not in _OFF:
            raise UsageError(f"--model-args: the provider 'hf' does not take {name}: {reason}")
    given = {name: value for name, value in args.items() if name not in _REFUSED}
    for name in ("dtype", "softmax_dtype"):
        if name in given:
            given[name] = str(given[name]).removeprefix("torch.")
    return read_args(given, HfArgs)


def _settings(args: HfArgs, connection: Connection, folder: Path) -> LoadModel:
    if args.backend not in (None, "default", "causal"):
        raise UsageError("--model-args: backend is default or causal; encoder-decoder models are not supported")
    if args.pretrained not in (None, connection.name):
        raise UsageError(f"--model-args pretrained={args.pretrained} and hf/{connection.name} name two models")
    template_args = args.chat_template_args or {}
    if args.enable_thinking is not None:
        template_args = {**template_args, "enable_thinking": args.enable_thinking}
    think_end = args.think_end_token
    return LoadModel(
        folder=str(folder),
        tokenizer=str(find_folder(str(args.tokenizer)) if args.tokenizer else folder),
        peft=str(find_folder(str(args.peft), what="peft")) if args.peft else "",
        dtype=args.dtype or "auto",
        softmax_dtype=args.softmax_dtype or "",
        device=args.device or "",
        batch_size=_batch_size(args.batch_size, connection.concurrency),
        max_length=args.max_length or 0,
        add_bos_token=args.add_bos_token,
        prefix_token_id=args.prefix_token_id,
        trust_remote_code=args.trust_remote_code,
        use_fast_tokenizer=args.use_fast_tokenizer,
        think_end_token=int(think_end) if think_end is not None and str(think_end).isdecimal() else think_end,
        chat_template_args=template_args,
    )


def _batch_size(value: Word | None, concurrency: int) -> int:
    """Return the largest batch. `auto` is half of --concurrency: one batch waits while another is computed."""
    text = "auto" if value is None else str(value)
    if text.startswith("auto"):
        return max(1, concurrency // 2)
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"--model-args batch_size: expected auto or a whole number of at least 1, found {value!r}")
    return int(text)
