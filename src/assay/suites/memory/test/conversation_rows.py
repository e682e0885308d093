"""The conversations of a run. Every pass reads the data again, so that one conversation is in memory at a time.

A file of LongMemEval has 500 conversations and up to 2.7 GB. The first pass reads all of it, reports every problem
before the first request, and keeps a key and the gold of each conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from assay.core.errors import InputError, Problem, UsageError, unknown
from assay.core.hashing import fingerprint
from assay.core.row_keys import RepeatedKeys, UniqueKeys, row_key
from assay.core.spec import apply_limit
from assay.core.suite import Row
from assay.suites.memory.test.conversation import Conversation
from assay.suites.memory.test.pipeline_caller import PipelineCaller, row_bytes


class ConversationRows:
    """The `Rows` of the suite, and its callers when it is iterated.

    `read` starts a pass over the data, `make` adds questions and tests to a conversation. `source` names the data or
    its loader in messages.
    """

    def __init__(
        self,
        read: Callable[[], Iterable[Conversation]],
        make: Callable[[Conversation], PipelineCaller],
        *,
        source: str,
        set_name: str,
        task_ids: Sequence[str] = (),
        categories: Sequence[str] = (),
        limit: float | None = None,
    ) -> None:
        self._read = read
        self._make = make
        self._set = set_name
        self.facts: dict[str, Any] = {}
        places: list[int] = []  # of the chosen conversations in the data
        keys: list[str] = []
        gold: list[list[Any]] = []
        waiting = asked = 0
        names: dict[int, str] = {}  # ids by index
        present: set[str] = set()
        # A limit below 1 is a share of a number that only the end of the pass tells.
        most = int(limit) if limit is not None and limit >= 1 else None
        for place, conversation in enumerate(read()):
            _add_name(names, conversation, source)
            present |= {str(each.category) for each in (*conversation.questions, *conversation.unplaced)}
            if task_ids and not {conversation.task_id, conversation.sample_id}.intersection(task_ids):
                continue
            places.append(place)
            if most is None or len(places) <= most:
                caller = make(conversation)
                # May run user code of a subclass. Computed here, so that its errors come before the first request.
                _ = caller.dataset_statistics
                keys.append(row_key(row_bytes(conversation, caller.questions, caller.tests)))
                gold.append([[each.reference, each.category, each.abstention] for each in caller.questions])
                waiting += len(caller.never_asked)
                asked += len(caller.questions)
        _refuse_unknown("category", categories, present)
        _refuse_unknown("conversation", task_ids, {*names.values(), *(f"{index:04d}" for index in names)})
        if waiting and not asked:
            raise UsageError(
                f"{source}: none of the {waiting:,} questions has usable evidence, so --ask when-visible never asks "
                "them. Ask them after the last message: --ask at-end"
            )
        self.count = apply_limit(limit, len(places))
        self._numbers = {place: number for number, place in enumerate(places[: self.count])}
        self.keys = _unique(keys[: self.count])
        self.gold_fingerprint = fingerprint([each for group in gold[: self.count] for each in group])
        """Fingerprint of everything that only scorers see. A change scores the same answers again."""

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[PipelineCaller]:
        return (row.data for row in self.iterate())

    def iterate(self, skip: Callable[[int], bool] | None = None) -> Iterator[Row[PipelineCaller]]:
        """Yield the conversations in data order. Reads the data up to the last of them."""
        last = max(self._numbers, default=-1)
        if last < 0:
            return
        for place, conversation in enumerate(self._read()):
            number = self._numbers.get(place)
            if number is not None and (skip is None or not skip(number)):
                yield Row(number, self.keys[number], self._set, self._make(conversation))
            if place == last:
                return


def _add_name(names: dict[int, str], conversation: Conversation, source: str) -> None:
    """Raise InputError if an earlier conversation has the same index, and so the same output file."""
    index, name = conversation.index, conversation.sample_id
    if index in names:
        message = (
            f"the conversations {names[index]!r} and {name!r} have the same index, {index}, and would be written to "
            f"the same file, {conversation.task_id}.json; count them: Conversation.of(0, …), Conversation.of(1, …)"
        )
        raise InputError(Problem(source, message))
    names[index] = name


def _refuse_unknown(what: str, names: Iterable[str], present: set[str]) -> None:
    """Raise UsageError for a name that the data does not have: probably a typing error, and nothing would be asked."""
    for name in names:
        if name not in present:
            raise UsageError(unknown(what, name, sorted(present)))


def _unique(keys: Sequence[str]) -> list[str]:
    repeats = RepeatedKeys()
    for key in keys:
        repeats.add(key)
    unique_keys = UniqueKeys(repeats.keys())
    return [unique_keys.of(key) for key in keys]
