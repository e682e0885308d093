"""The Run tab: a form of the inputs, the result as a card, feedback and retries. `trials.py` does the work."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from urllib.parse import quote

import msgspec
from aiohttp import web
from msgspec import Struct

from assay.core.errors import UsageError
from assay.store.render.screen import counted
from assay.suites.hop.result import OK
from assay.suites.hop.task_folder import HopTask
from assay.view.hop.form import Widget, make_widgets, read_widgets
from assay.view.hop.history import first_input
from assay.view.hop.result_card import CardContent, ResultCard, make_card
from assay.view.hop.round import ERROR, RoundStep
from assay.view.hop.site import HOP, TaskHead, open_task, task_files, task_head
from assay.view.hop.trials import Trial, Trials
from assay.view.live import send_fragments
from assay.view.site import SITE, Site
from assay.view.text import TextBlock, preview


class ProfileChoice(Struct):
    """A profile of the settings."""

    name: str
    title: str
    is_selected: bool


class RoundCard(Struct):
    """One round: the feedback before it, its card and its steps."""

    feedback: str
    card: ResultCard
    steps: list[RoundStep]
    traceback: TextBlock | None


class ShownTrial(Struct, kw_only=True):
    """The trial that is shown."""

    id: str
    state: str
    seconds: float
    rounds: list[RoundCard]
    """The newest one first."""
    asks_feedback: bool
    rounds_left: int
    can_confirm: bool
    can_retry: bool
    retries_left: int | None
    live: str
    here: str


class RunTab(Struct, kw_only=True):
    """The values of `hop_run.html`."""

    head: TaskHead
    widgets: list[Widget]
    profiles: list[ProfileChoice]
    trial: ShownTrial | None
    is_forgotten: bool
    """The address names a trial that this server does not know."""
    error: str = ""


class TrialFragment(Struct):
    """The values of `hop_trial_state.html`."""

    seconds: float


async def show(request: web.Request) -> web.StreamResponse:
    """Show the form. `?trial=ID` shows a trial with its inputs, `?example=1` fills in an example."""
    site = request.app[SITE]
    task = await open_task(request)
    trial_id, whole = request.query.get("trial", ""), request.query.get("whole", "")
    trial = request.app[HOP].trials.find(trial_id, task.folder)
    values: dict[str, Any] = trial.fields if trial else {}
    profile = trial.profile if trial else request.query.get("profile", "")
    if "example" in request.query:
        values = await asyncio.to_thread(_example, site, task)
    page = RunTab(
        head=task_head(site, task, "run"),
        widgets=make_widgets(task.contract, values),
        profiles=profile_choices(task, profile),
        trial=_shown_trial(site, task, trial, whole) if trial else None,
        is_forgotten=bool(trial_id) and trial is None,
    )
    if "example" in request.query and not values:
        page.error = "There is no example: write `example:` at the inputs of the contract, or add a data file."
    return site.render("hop_run.html", page)


class _UnreadableFields(UsageError):
    """Fields of the form have no valid value. `problems` has a sentence for each."""

    def __init__(self, problems: dict[str, str]) -> None:
        super().__init__(f"{counted(len(problems), 'field')} cannot be read. Nothing was run.")
        self.problems = problems


async def act(request: web.Request) -> web.StreamResponse:
    """Do what a button says: run, cancel, feedback, confirm or retry. Then show the trial."""
    site, trials = request.app[SITE], request.app[HOP].trials
    task = await open_task(request)
    head = task_head(site, task, "run")
    form = {name: value for name, value in (await request.post()).items() if isinstance(value, str)}
    try:
        trial = await _act(task, head, trials, form)
    except UsageError as error:
        known = trials.find(form.get("trial", ""), task.folder)
        problems = error.problems if isinstance(error, _UnreadableFields) else {}
        page = RunTab(
            head=head,
            # Other buttons than Run send no inputs.
            widgets=make_widgets(task.contract, known.fields)
            if known
            else make_widgets(task.contract, {}, form, problems),
            profiles=profile_choices(task, known.profile if known else form.get("profile", "")),
            trial=_shown_trial(site, task, known, "") if known else None,
            is_forgotten=False,
            error=str(error),
        )
        return site.render("hop_run.html", page, status=400)
    raise web.HTTPSeeOther(f"/hop/run/{head.name}?trial={quote(trial.id)}#result")


async def _act(task: HopTask, head: TaskHead, trials: Trials, form: dict[str, str]) -> Trial:
    action, profile = form.get("do", ""), form.get("profile", "")
    if action == "run":
        fields, problems = read_widgets(task.contract, form)
        if not head.can_run:
            raise UsageError("This task cannot run now: see the top of the page.")
        if problems:
            raise _UnreadableFields(problems)
        if task.profiles and profile not in [each.name for each in task.profiles]:
            raise UsageError(f"There is no profile {profile!r}.")
        return await trials.start(task, profile if task.profiles else "", fields)
    trial = trials.find(form.get("trial", ""), task.folder)
    if trial is None:
        raise UsageError("This run is gone: the server has forgotten it or was started again.")
    if action == "feedback":
        await trials.give_feedback(trial, form.get("feedback", ""))
    elif action == "confirm":
        await trials.confirm(trial)
    elif action == "retry":
        await trials.retry(trial)
    elif action == "cancel":
        await trials.cancel(trial)
    else:
        raise UsageError("The button is not known. Reload the page.")
    return trial


async def stream(request: web.Request) -> web.StreamResponse:
    """Send the time of a running trial, until it is over."""
    site = request.app[SITE]
    task = await open_task(request)
    trial = request.app[HOP].trials.find(request.query.get("trial", ""), task.folder)

    async def look() -> tuple[dict[str, str], bool]:
        if trial is None or trial.state != "running":
            return {}, True
        html = site.fragment("hop_trial_state.html", TrialFragment(time.monotonic() - trial.began))
        return {"trial-state": html}, False

    return await send_fragments(request, look)


def profile_choices(task: HopTask, selected: str) -> list[ProfileChoice]:
    """Return the profiles of a task for a list of choices."""
    choices = []
    for profile in task.profiles:
        models = profile.run if profile.run == profile.verify else f"{profile.run}, verified by {profile.verify}"
        title = profile.name if models == profile.name else f"{profile.name}: {models}"
        choices.append(ProfileChoice(profile.name, title, profile.name == selected))
    return choices


def _example(site: Site, task: HopTask) -> dict[str, Any]:
    """Return example inputs: those of the contract, and for the rest those of the first record that has all."""
    forms = task.contract.forms
    values = {name: forms[name].example for name in forms if forms[name].example is not None}
    if set(values) >= set(task.contract.inputs) - task.contract.optional and values:
        return values
    # The oldest file first: later ones are mostly results.
    for file in reversed(task_files(site, task)):
        if (inputs := first_input(file.path, task.contract)) is not None:
            return {**inputs, **values}
    return values


def _shown_trial(site: Site, task: HopTask, trial: Trial, whole: str) -> ShownTrial:
    rounds = []
    for position, each in enumerate(trial.rounds):
        traceback = None
        if each.result.traceback:
            block = f"t{position}-traceback"
            text = preview(each.result.traceback, whole=whole == block)
            traceback = TextBlock(block, "traceback", text, "failed")
        card = _card(task, trial, position, whole)
        rounds.append(RoundCard(each.feedback, card, each.result.steps, traceback))
    name = site.name(task.folder) or ""
    return ShownTrial(
        id=trial.id,
        state=trial.state,
        seconds=time.monotonic() - trial.began,
        rounds=rounds[::-1],
        asks_feedback=trial.asks_feedback,
        rounds_left=trial.rounds_left,
        can_confirm=trial.can_confirm,
        can_retry=trial.can_retry,
        retries_left=trial.retries_left,
        live=f"/hop/live/run/{name}?trial={quote(trial.id)}" if trial.state == "running" else "",
        here=f"?trial={quote(trial.id)}",
    )


def _card(task: HopTask, trial: Trial, position: int, whole: str) -> ResultCard:
    result = trial.rounds[position].result
    value = msgspec.json.decode(result.result) if result.result else None
    fields = value if isinstance(value, dict) else {}
    error = result.error
    if value is not None and not fields and result.status not in (OK, ERROR):
        # The result of a status other than OK may be a plain text: the function's explanation.
        error = value if isinstance(value, str) else result.result
    elif value is not None and not isinstance(value, dict):
        fields = {"result": value}
    is_last = position == len(trial.rounds) - 1
    facts = [("Time", f"{result.seconds:.1f} s"), ("Model calls", f"{result.calls:,}")]
    if trial.profile:
        facts.append(("Profile", trial.profile))
    if trial.is_confirmed and is_last:
        facts.append(("Confirmed", "by you"))
    content = CardContent(
        heading=f"Round {position + 1}",
        status=result.status,
        fields=fields,
        raw=value if value is not None else msgspec.to_builtins(result),
        error=error,
        facts=facts,
    )
    return make_card(content, task.contract.outputs, f"t{position}", whole)
