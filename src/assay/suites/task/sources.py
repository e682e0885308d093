"""Which documents a task evaluates, and which ones its few-shot examples are taken from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.core.errors import InputError, Problem
from assay.suites.task.config import TaskConfig
from assay.suites.task.data.docs import Docs
from assay.suites.task.data.processing import processed, seed_code
from assay.suites.task.data.source import Source
from assay.suites.task.data.spool import spool_rows
from assay.suites.task.options import Seeds

_EVALUATED = ("test_split", "validation_split", "training_split")
_SHOWN = ("training_split", "validation_split", "test_split")


class Sources:
    """The splits of one task. Data is opened at once, so that what is missing is said early."""

    def __init__(self, config: TaskConfig, seeds: Seeds, arguments: dict[str, Any]) -> None:
        self._config = config
        self._seeds = seeds
        self._arguments = arguments
        self._made: Any = None
        self._source = self._find()
        self.split = self._evaluated()
        self._docs = self._open(self.split)
        self._ready: Docs | None = None
        self._shown = self._examples() if config.values["num_fewshot"] else None
        self._shown_ready: list[dict[str, Any]] | None = None
        self.made: list[str] = []
        """What `process_docs` made, by content, as far as it was read."""

    def _evaluated(self) -> str:
        for key in _EVALUATED:
            if split := self._config.values.get(key):
                return str(split)
        raise InputError(
            Problem(self._config.files[0].where(), "no split to evaluate: set test_split or validation_split")
        )

    def _find(self) -> Source | None:
        config, values = self._config, self._config.values
        if values.get("custom_dataset") is not None:
            return None
        name, options = values.get("dataset_name"), values.get("dataset_kwargs")
        return Source(str(values["dataset_path"]), name, options, config.path.parent, config.where)

    def _open(self, split: str) -> Docs:
        return self._source.open(split) if self._source else self._custom(split)

    def _custom(self, split: str) -> Docs:
        """`custom_dataset: !function` makes all splits; it is told metadata and arguments."""
        config, values = self._config, self._config.values
        where = config.where("custom_dataset")
        if self._made is None:
            told = (values.get("metadata") or {}) | self._arguments | (values.get("dataset_kwargs") or {})
            seed_code(**self._seeding())
            self._made = _called(config.function("custom_dataset"), where, **told)
        if split not in self._made:
            raise InputError(Problem(where, f"it made no split {split!r}; it made {', '.join(self._made)}"))
        return spool_rows(self._made[split], config.path, f" {split} document {{}}", fill=True)

    @property
    def identity(self) -> Any:
        """The evaluated data by content."""
        return self._docs.identity()

    @property
    def shown_identity(self) -> Any:
        """The pool of examples by content."""
        return self._shown.identity() if isinstance(self._shown, Docs) else self._shown

    @property
    def docs(self) -> Docs:
        """The evaluated documents, after `process_docs`."""
        if self._ready is None:
            self._ready = self._through(self._docs, ("process_docs",))
        return self._ready

    def _through(self, docs: Docs, place: tuple[str, ...]) -> Docs:
        function = self._config.function(*place)
        if function is None:
            return docs
        found = processed(docs, function, where=self._config.where(*place), **self._seeding())
        self.made += found.identity()
        return found

    def _seeding(self) -> dict[str, int]:
        return {"seed": self._seeds.random or 0, "numpy_seed": self._seeds.numpy or 0}

    def _examples(self) -> Docs | list[dict[str, Any]]:
        fewshot = self._config.values["fewshot_config"]
        if fewshot["split"]:
            return self._open(fewshot["split"])
        if fewshot["samples"] is not None:
            return list(self._samples())
        for key in _SHOWN:
            if split := self._config.values.get(key):
                return self._open(str(split))
        raise InputError(Problem(self._config.where("num_fewshot"), "no split has examples to show"))

    def _samples(self) -> list[dict[str, Any]]:
        where = self._config.where("fewshot_config", "samples")
        samples = self._config.function("fewshot_config", "samples")
        seed_code(**self._seeding())
        found = _called(samples, where) if callable(samples) else samples
        if not isinstance(found, list) or not all(isinstance(sample, dict) for sample in found):
            raise InputError(Problem(where, "expected a list of documents"))
        return found

    def pool(self, few: int | None) -> list[dict[str, Any]]:
        """The documents examples are taken from; the first ones only, where the rest is not needed."""
        shown = self._shown
        if not isinstance(shown, Docs):
            return shown or []
        if self._shown_ready is None:
            place = ("fewshot_config", "process_docs") if self._explicit else ("process_docs",)
            docs = self._through(shown, place)
            if not docs.facts.total:
                docs.look()
            self._shown_ready = list(docs.values(few))
        return self._shown_ready

    @property
    def _explicit(self) -> bool:
        return bool(self._config.values["fewshot_config"]["split"])

    @property
    def harness_excludes(self) -> bool:
        """Whether the harness takes a document out of its own examples: it compares two settings."""
        values = self._config.values
        return bool(values["fewshot_config"]["split"] == values.get("test_split"))

    @property
    def overlap(self) -> bool:
        """Whether the examples come from the evaluated documents."""
        return isinstance(self._shown, Docs) and self._shown.identity() == self._docs.identity()


def _called(function: Callable[..., Any], where: str, **told: Any) -> Any:
    try:
        return function(**told)
    except Exception as error:
        raise InputError(Problem(where, f"it raised {type(error).__name__}: {error}")) from error
