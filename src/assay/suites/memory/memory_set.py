"""Opens a memory for each case of a run, with everything that it may use: models, embeddings, a folder.

memories = MemorySet(find_settings(["bm25", "FUMemory"], {}, "--memory"), "wordllama", timeout=60.0)
async with memories.open("bm25", ctx) as memory:
seconds = await memory.add(messages)
"""

from __future__ import annotations

import base64
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.core.errors import CaseFailed, ModelError, UsageError
from assay.core.memory import Memory, MemoryContext
from assay.core.params import merge_into_body
from assay.core.protocols import Asker, Context
from assay.core.spec import DEFAULT_SEED
from assay.core.threads import DaemonPool
from assay.core.types import Failure, Request, SdkRequest
from assay.files.excerpt import cut_end
from assay.suites.memory.roles import BUILD_ROLE, EMBEDDER_ROLE, is_endpoint
from assay.suites.memory.settings import MemorySetting
from assay.suites.memory.timed_memory import TimedMemory
from assay.usercode import user_function
from assay.usercode.errors import UserCodeError
from assay.usercode.loop import LoopTurn, run_here, run_there
from assay.usercode.plugins import load_embedder

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Texts per embedding request. Some endpoints accept only a few hundred.
_EMBED_BATCH = 64
# The methods of `core.memory.Memory`.
_METHODS = ("reset", "add", "search", "items", "end_session")
# Equal requests of a case send seed, seed + 1, …: the seeds of two repeats must not meet.
_SEEDS_PER_REPEAT = 1_000_000

EmbedFunction = Callable[[Sequence[str]], Awaitable["NDArray[Any]"]]


class MemorySet:
    """The memories of a run. `open` makes a memory for one case.

    `embedder` is PROVIDER/NAME for an endpoint, or the name of an embedder that runs in this process.
    `embedder_params` are the parameters of the requests for embeddings. `seed` is the run's. `has_model` says whether
    the run has a model that memories may ask.
    """

    def __init__(
        self,
        settings: Mapping[str, MemorySetting],
        embedder: str,
        timeout: float,
        seed: int = DEFAULT_SEED,
        embedder_params: dict[str, Any] | None = None,
        *,
        has_model: bool = True,
    ) -> None:
        self._settings = settings
        self._embedder = embedder
        self._embedder_params = embedder_params or {}
        self._has_model = has_model
        self._load_embedder = cache(partial(load_embedder, embedder))
        self._seed = seed
        self._timeout = timeout
        # `replaces`: a thread whose memory timed out cannot be stopped, so a new thread takes its place.
        self._pool = DaemonPool(64, "assay-memory", replaces=True)
        self._turn = LoopTurn()
        self._embeds_at_endpoint = is_endpoint(embedder)
        self._embeds_here = not self._embeds_at_endpoint and any(setting.about.embeds for setting in settings.values())
        self.asking = ", ".join(
            name for name, setting in settings.items() if setting.about.asks and setting.about.needs_model
        )
        """The names of the memories that need a model to store or search; empty if none does."""
        self.needing_evidence = frozenset(name for name, setting in settings.items() if setting.about.needs_evidence)
        self.bundles = frozenset(name for name, setting in settings.items() if setting.about.bundle)

    @asynccontextmanager
    async def open(self, name: str, ctx: Context) -> AsyncIterator[TimedMemory]:
        """Make an empty memory for a case. Its folder is deleted afterwards.

        A later try of the case builds the memory again. Its model calls are replayed from the journal.
        """
        setting = self._settings[name]
        memory = TimedMemory(
            name,
            setting.about,
            self._pool,
            self._turn,
            self._timeout,
            setting.k,
        )

        def build_model() -> Asker:
            asker = memory.use(ctx.model(BUILD_ROLE))
            if setting.repeat > 1:
                asker.seed = self._seed + _SEEDS_PER_REPEAT * (setting.repeat - 1)
            return asker

        async def ask(messages: list[dict[str, Any]], params: dict[str, Any]) -> str:
            asker = build_model()
            request = Request(model=asker.name, endpoint=asker.endpoint, messages=messages, params=params)
            return (await asker.ask(request)).text

        async def base_url() -> str:
            if not self._has_model and not setting.about.needs_model:
                return ""
            build_model()
            return await ctx.base_url(BUILD_ROLE)

        with tempfile.TemporaryDirectory(prefix="assay-memory-", ignore_cleanup_errors=True) as folder:
            context = MemoryContext(
                ask=run_here(ask),
                embed=self._embed_function(memory, ctx),
                base_url=run_here(base_url),
                folder=Path(folder),
                rng=ctx.rng(f"memory {name}"),
                options=setting.options,
            )
            try:
                if setting.about.quick:
                    memory.memory = user_function.call_here(setting.make, (context,))
                else:
                    # The memory may need the running loop, or load files for long.
                    memory.memory = await run_there(partial(_make, setting, context))
            except UserCodeError as error:
                raise CaseFailed(error.failure(f"{name}: {error}")) from error
            if missing := [method for method in _METHODS if not hasattr(memory.memory, method)]:
                kind = type(memory.memory).__name__
                message = f"{name}: {kind} lacks {', '.join(missing)}; a memory has {', '.join(_METHODS)}"
                raise CaseFailed(Failure("user_code", message))
            if self._embeds_here:
                # An embedder that is missing must not cost a model call, nor one of another memory. This comes after
                # `make`, because the extra of a missing system installs the embedder too.
                await run_there(self._check_embedder)
            yield memory

    def _embed_function(self, memory: TimedMemory, ctx: Context) -> EmbedFunction:
        if self._embeds_at_endpoint:
            return run_here(partial(_embed_at_endpoint, memory, ctx, self._embedder_params))
        return self._embed_here

    async def _check_embedder(self) -> None:
        """Load the embedder, unless it is loaded. Raises UsageError if that fails."""
        self._load_embedder()

    async def _embed_here(self, texts: Sequence[str]) -> NDArray[Any]:
        """Embed texts in this process. The embedder is loaded once, for all cases."""
        import numpy as np

        rows = self._load_embedder().embed(texts)
        with np.errstate(over="ignore"):  # numbers beyond float32 become infinite, which is refused below
            vectors = np.asarray(rows, dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise UsageError(
                f"the embedder {self._embedder!r} returned an array of shape {vectors.shape} for {len(texts):,} texts; "
                "embed(texts) returns one row for each text"
            )
        if not np.isfinite(vectors).all():
            row, column = np.argwhere(~np.isfinite(vectors))[0]
            raise UsageError(
                f"the embedder {self._embedder!r} returned a vector with {vectors[row, column]} for the text "
                f"{cut_end(texts[row], 60)!r}; all numbers of a vector are finite"
            )
        return vectors


async def _make(setting: MemorySetting, context: MemoryContext) -> Memory:
    return user_function.call_here(setting.make, (context,))


async def _embed_at_endpoint(
    memory: TimedMemory, ctx: Context, params: dict[str, Any], texts: Sequence[str]
) -> NDArray[Any]:
    """Embed texts with the endpoint of the embedder role. Calls are logged, retried, and replayed on resume.

    Returns unit vectors.
    """
    import numpy as np

    asker = memory.use(ctx.model(EMBEDDER_ROLE))
    rows: list[list[float]] = []
    for start in range(0, len(texts), _EMBED_BATCH):
        rows += await _request_vectors(asker, params, list(texts[start : start + _EMBED_BATCH]))
    with np.errstate(over="ignore"):  # as in `_embed_here`
        vectors = np.array(rows, dtype=np.float32).reshape(len(texts), -1)
    if not np.isfinite(vectors).all():
        raise ModelError(Failure("bad_reply", f"{asker.name} returned a vector with numbers that are not finite"))
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[Any] = vectors / np.maximum(lengths, 1e-9)
    return unit


async def _request_vectors(asker: Asker, params: dict[str, Any], texts: list[str]) -> list[list[float]]:
    """Return one vector per text, in the order of the texts. An endpoint may reply in another order."""
    # The caller lays a role's parameters over chat requests only: an SDK may embed with the role of a chat model.
    sdk = merge_into_body(SdkRequest("/embeddings", {"input": texts}), params)
    response = await asker.ask(Request(model=asker.name, endpoint=asker.endpoint, sdk=sdk))
    data = (response.data or {}).get("vectors", {}).get("data", [])
    if len(data) != len(texts):
        message = f"{asker.name} returned {len(data):,} vectors for {len(texts):,} texts"
        raise ModelError(Failure("bad_reply", message))
    items = sorted(data, key=lambda item: item.get("index", 0))
    return [_decode_vector(item["embedding"]) for item in items]


def _decode_vector(vector: Any) -> list[float]:
    """Return the numbers of a vector. The journal stores a vector as base64 if float32 loses no precision."""
    if isinstance(vector, dict):
        import numpy as np

        numbers: list[float] = np.frombuffer(base64.b64decode(vector["float32"]), dtype="<f4").tolist()
        return numbers
    return [float(value) for value in vector]
