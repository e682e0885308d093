"""Sentences about work that takes long."""

from __future__ import annotations

import threading

from assay.core.events import on_slow, tell_if_slow


def test_work_that_takes_long_says_what_it_does_until_it_ends() -> None:
    sentences: list[str] = []
    told = threading.Event()

    def tell(sentence: str) -> None:
        sentences.append(sentence)
        told.set()

    token = on_slow.set(tell)
    try:
        with tell_if_slow(lambda: "still reading", seconds=0.01):
            assert told.wait(60), "the work goes on until it is told"
        with tell_if_slow(lambda: "fast", seconds=3600):
            pass
    finally:
        on_slow.reset(token)
    assert set(sentences) == {"still reading"}


def test_without_a_listener_nothing_is_told() -> None:
    with tell_if_slow(lambda: "nobody listens", seconds=0.0):
        pass
