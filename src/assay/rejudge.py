"""Judges a run that is there by another judge: of what it was told only its judge changes."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from assay.core import registry
from assay.core.events import Notify
from assay.core.spec import RunSpec, fields
from assay.journal.folder import RunInfo, read_info
from assay.models.calling.connect import ReplayOnlyModel
from assay.start import Start

_JUDGE = "judge"
_URLS = ("OPENAI_BASE_URL_JUDGE", "OPENAI_BASE_URL")
"""Where a judge is now: what is set today comes before the endpoint that the run knew."""


def starting(spec: RunSpec, observers: Sequence[Notify]) -> Start:
    """A start of the run that a spec means.

    With `eval_only`, the run that a suite's `own_run(spec)` names is judged, and no other model is asked.
    """
    if not getattr(spec.options, "eval_only", False):
        return Start(spec, observers)
    spec = _for_the_judge(spec)
    folder = registry.find("suite", spec.suite).own_run(spec)
    if folder is None:
        return Start(spec, observers)
    info = read_info(folder)
    others = {role: told[1] for role, told in info.parts["ask"].get("models", {}).items()}
    stand_in = ReplayOnlyModel(info.spec["base_url"] or "", others, live_roles=frozenset({_JUDGE}))
    return Start(_as_asked(spec, info), observers, unasked=stand_in)


def _for_the_judge(spec: RunSpec) -> RunSpec:
    """Only the judge is asked: the endpoint is meant for it, and a model would be one too many."""
    options = spec.options
    here = next((os.environ[name] for name in _URLS if os.environ.get(name)), None)
    url = getattr(options, "judge_base_url", None) or spec.base_url or here
    told = msgspec.structs.replace(options, judge_base_url=url)
    return msgspec.structs.replace(spec, model="", base_url=None, options=told)


def _as_asked(spec: RunSpec, info: RunInfo) -> RunSpec:
    """What affects replies is as the run has it; what affects scores is as it is told now."""
    asked = {f.name for f in fields(RunSpec) if f.mark == "ask"} - {"suite", "options"}
    own = {f.name for f in fields(type(spec.options)) if f.mark == "ask"}
    before = info.spec["options"]
    options = msgspec.to_builtins(spec.options) | {name: before[name] for name in own & before.keys()}
    told = {name: info.spec[name] for name in asked} | {"base_url": _address(info)}
    return msgspec.structs.replace(spec, **told, options=msgspec.convert(options, type(spec.options)))


def _address(info: RunInfo) -> str | None:
    """The model's endpoint, for a judge that has none of its own; a file or weights have no address."""
    known = info.spec["base_url"]
    return known if known and known.startswith(("http://", "https://")) else None
