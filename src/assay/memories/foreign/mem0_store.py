"""The package `mem0ai` at work: on disk, without telemetry or downloads, with one address to talk to."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from assay.core.errors import UsageError
from assay.memories.foreign.mem0_calls import KEY, Calls, Embed, Embedder, Llm, Vectors

_WHO = {"user_id": "conversation"}
"""mem0 wants to know whose memories these are; a store has one conversation."""
_importing = threading.Lock()


class Place(NamedTuple):
    """Where a store writes, and the address of the gateway."""

    folder: Path
    url: str


class Store:
    """One `mem0.Memory`. Its methods block, so they are called in threads, one after the other."""

    def __init__(self, memory: Any, llm: Llm, calls: Calls, close: Callable[[], None]) -> None:
        self._memory = memory
        self._llm = llm
        self._calls = calls
        self.close = weakref.finalize(self, close)

    def add(self, messages: list[dict[str, str]], date: str) -> list[tuple[str, str]]:
        """Ids and texts of what it made of them, at this date."""
        self._llm.date = date
        told = self._calls.watched(partial(self._memory.add, messages, **_WHO))
        return [(each["id"], each["memory"]) for each in told["results"]]

    def search(self, text: str, k: int, threshold: float) -> list[tuple[str, float]]:
        """Ids and scores, best first."""
        work = partial(self._memory.search, text, top_k=k, filters=dict(_WHO), threshold=threshold)
        return [(each["id"], float(each["score"])) for each in self._calls.watched(work)["results"]]

    def held(self, count: int) -> set[str]:
        """The ids of what is held, of which there are at most `count`."""
        told = self._memory.get_all(filters=dict(_WHO), top_k=count, show_expired=True)
        return {each["id"] for each in told["results"]}


def opened(place: Place, embed: Embed, probe: str) -> Store:
    """An empty store. Its vectors are as long as that of the first text."""
    mem0, client, calls = _package(), _client(place.url), Calls()
    try:
        vectors = embed(client)
        size = len(calls.watched(partial(_first, vectors, probe)))
        memory = mem0.Memory.from_config(_config(place.folder, _name(client, calls), size))
    except BaseException:
        client.close()
        raise
    return _connected(memory, client, Embedder(vectors, calls), calls)


def _connected(memory: Any, client: Any, embedder: Embedder, calls: Calls) -> Store:
    for own in (memory.llm, memory.embedding_model):
        own.client.close()
    memory.llm.client = client
    llm = memory.llm = Llm(memory.llm, calls)
    memory.embedding_model = embedder
    memory.vector_store._bm25_encoder = False  # noqa: SLF001 - fastembed, where installed, downloads its model
    return Store(memory, llm, calls, partial(_close, memory, client))


def _first(vectors: Vectors, text: str) -> list[float]:
    return vectors([text])[0]


def _name(client: Any, calls: Calls) -> str:
    """The run's model as its endpoint calls it: mem0 knows by the name which parameters a model takes."""
    name: str = calls.watched(client.models.list).data[0].id
    return name


def _client(url: str) -> Any:
    """It waits as long as the run does, repeats nothing that the gateway repeated, and knows no proxy."""
    import openai

    http = openai.DefaultHttpxClient(trust_env=False)
    return openai.OpenAI(base_url=url, api_key=KEY, max_retries=0, timeout=None, http_client=http)


def _config(folder: Path, model: str, size: int) -> dict[str, Any]:
    folder.mkdir(parents=True)
    store = {"collection_name": "memories", "embedding_model_dims": size}
    return {
        "llm": {"provider": "openai", "config": {"model": model, "api_key": KEY, "temperature": 0.0}},
        "embedder": {"provider": "openai", "config": {"api_key": KEY}},
        "vector_store": {
            "provider": "qdrant",
            "config": {**store, "path": str(folder / "vectors"), "on_disk": True},
        },
        "history_db_path": str(folder / "history.db"),
    }


def _close(memory: Any, client: Any) -> None:
    for one in (memory.vector_store.client, memory.db, client):
        with suppress(Exception):  # a folder that is gone is closed enough
            one.close()


def _package() -> Any:
    """mem0 reads its settings when it is imported, sends events by default, and writes to the home folder."""
    with _importing:
        if "mem0" not in sys.modules:
            _import()
        import mem0
        from mem0.memory import telemetry
        from mem0.utils import spacy_models
        from qdrant_client.local.persistence import CollectionPersistence

    if telemetry.MEM0_TELEMETRY:
        raise UsageError(
            "mem0 was imported with its telemetry on: set MEM0_TELEMETRY=False in the environment"
        )
    # With spaCy it would download a model, and find other things than on a machine without.
    spacy_models._load_failed_full = spacy_models._load_failed_lemma = True  # noqa: SLF001
    CollectionPersistence.CHECK_SAME_THREAD = False  # one call at a time, but not always in the same thread
    return mem0


def _import() -> None:
    before = os.environ.get("MEM0_DIR")
    os.environ["MEM0_TELEMETRY"] = "False"
    with tempfile.TemporaryDirectory(prefix="assay-mem0-") as folder:
        os.environ["MEM0_DIR"] = folder
        try:
            import mem0  # noqa: F401
        except ImportError as error:
            raise UsageError(f"the package mem0ai is installed but cannot be loaded: {error}") from error
        finally:
            del os.environ["MEM0_DIR"]
            if before is not None:
                os.environ["MEM0_DIR"] = before
