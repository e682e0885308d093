"""Texts as vectors: by an embedder in this process, or by an endpoint through the run's own log."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from assay.core.errors import ModelError
from assay.core.protocols import Asker, Context
from assay.core.types import Failure, Request

if TYPE_CHECKING:
    from numpy.typing import NDArray

Embed = Callable[[Sequence[str]], Awaitable["NDArray[Any]"]]
Embedding = Callable[[Context], Embed]
"""How a case embeds."""
ROLE = "embedder"
_BATCH = 64
"""Texts of one request: endpoints take a few hundred at most."""


def at_endpoint(ctx: Context) -> Embed:
    """Asked of the model that plays the embedder: logged, retried, and served again on resume."""

    async def embed(texts: Sequence[str]) -> NDArray[Any]:
        import numpy as np

        asker = ctx.model(ROLE)
        batches = [list(texts[at : at + _BATCH]) for at in range(0, len(texts), _BATCH)]
        rows = [row for batch in batches for row in await _vectors(asker, batch)]
        found = np.array(rows, dtype=np.float32).reshape(len(texts), -1)
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        unit: NDArray[Any] = found / np.maximum(lengths, 1e-9)
        return unit

    return embed


async def _vectors(asker: Asker, texts: list[str]) -> list[list[float]]:
    """In the order of the texts, whatever order the endpoint has."""
    body = {"input": texts}
    request = Request(model=asker.name, endpoint=asker.endpoint, params={"path": "/embeddings", "body": body})
    response = await asker.ask(request)
    data = (response.data or {}).get("vectors", {}).get("data", [])
    rows = sorted(data, key=lambda item: item.get("index", 0))
    if len(rows) != len(texts):
        said = f"{asker.name} gave {len(rows):,} vectors for {len(texts):,} texts"
        raise ModelError(Failure("bad_reply", said))
    return [_numbers(row["embedding"]) for row in rows]


def _numbers(vector: Any) -> list[float]:
    """The log keeps vectors packed where that loses nothing."""
    if isinstance(vector, dict):
        import numpy as np

        found: list[float] = np.frombuffer(base64.b64decode(vector["float32"]), dtype="<f4").tolist()
        return found
    return [float(value) for value in vector]
