"""`assay.evaluate`: evaluate a function, a prompt or a model over rows, from Python.

    import assay

    rows = [{"question": "2+2?", "answer": "4"}, {"question": "3+3?", "answer": "6"}]
    run = assay.evaluate(rows, answer=my_function, score=[assay.exact_match("answer")], name="sums")
    print(run["exact_match"].value, run["exact_match"].interval)

It uses the same engine as the command line. Every model reply is logged. The same call of `evaluate` continues an
interrupted run. A changed scorer scores the logged answers again. A changed function, prompt, model or row starts
another run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.core.errors import UsageError
from assay.core.events import observed
from assay.core.hashing import fingerprint
from assay.core.protocols import Model
from assay.core.roles import SEVERAL, split_urls
from assay.core.run_end import INTERRUPTED
from assay.core.spec import DEFAULT_SEED, build
from assay.files.excerpt import cut_end
from assay.models.python import PythonModel
from assay.runner import progress
from assay.runner.loops import run_blocking
from assay.runner.opening import open_suite
from assay.runner.results import Run
from assay.runner.runner import Runner
from assay.suites.evaluate.options import EvaluateOptions
from assay.suites.evaluate.rows import SampleSource, read_rows
from assay.suites.evaluate.scorers import AnswerJudge, NamedMetric, OwnScorer, Rubric, ScorerLike
from assay.suites.evaluate.suite import EvaluateSuite, SubjectSpec
from assay.usercode import user_function
from assay.usercode.model_args import with_options_of_arguments
from assay.usercode.source import describe_callable, parameters_of

AnswerFunction = Callable[..., Any]
ModelLike = str | Callable[..., Any]
PromptLike = str | Callable[..., Any]


def evaluate(  # noqa: PLR0913 - one parameter for each option
    rows: SampleSource,
    *,
    answer: AnswerFunction | Mapping[str, AnswerFunction] | None = None,
    model: ModelLike | Mapping[str, ModelLike] | None = None,
    prompt: PromptLike | Mapping[str, PromptLike] | None = None,
    score: ScorerLike | Sequence[ScorerLike] = (),
    target: str | Sequence[str] = (),
    tags: str | Sequence[str] = (),
    name: str = "",
    version: str = "",
    repeats: int = 1,
    system_instruction: str = "",
    gen_kwargs: Mapping[str, Any] | None = None,
    model_args: Mapping[str, Any] | None = None,
    base_url: str | Sequence[str] | None = None,
    serve: str = "",
    judge: str | None = None,
    judge_kwargs: Mapping[str, Any] | None = None,
    votes: int = 1,
    output_dir: str | Path = "",
    concurrency: int = 16,
    limit: float | None = None,
    seed: int = DEFAULT_SEED,
    timeout: float = 300.0,
    max_retries: int = 5,
    max_wait: float = 120.0,
    ca_file: str | Path = "",
    insecure: bool = False,
    max_calls: int | None = None,
    max_cost: float | None = None,
    prices: str | Path | None = None,
    fresh: bool = False,
    retry_failed: bool = False,
    shard: str = "",
    reuse: str | Path | None = None,
    executor: str = "local",
    address: str | None = None,
    workers: int | None = None,
    worker_cpus: float = 1.0,
    worker_gpus: float = 0.0,
    quiet: bool = False,
) -> Run:
    """Evaluate a function, a prompt or a model over rows, and return the run.

    Pass `answer`, a function that gets a row and returns an answer, or pass `model` and `prompt`. To compare several
    subjects, pass one of the three as a mapping from names to values. Each of them is evaluated on every row.

    Args:
        rows: A list or iterator of dicts, a .jsonl, .json, .csv, .tsv or .parquet file, or a DataFrame.
        answer: A function, sync or async. It takes columns by name, `row` for the whole row, `ctx` for logged model
            calls. It is called once per case and repeat.
        model: A name such as "local/smollm2" or "openai/gpt-5", or a function of a prompt. Every call is logged.
        prompt: A Jinja template over the columns, such as "{{ question }}", or a function of a row that returns a text
            or a list of messages.
        score: Scorers: functions of any of `answer, target, row, ctx, records`, names of metrics, "judge", or
            `assay.exact_match("column")`, `assay.metric(...)`, `assay.judge(...)`, `assay.rubric(...)`.
        target: The column with the right answer, or several columns. They are gold: scorers get them, the evaluated
            function or prompt does not.
        tags: Columns whose values group the cases in the report.
        name: Name of the evaluation. Another name is another run.
        version: Version of the evaluated functions, for changes that assay cannot see in their source. Another
            version is another run.
        repeats: Answers per case. The score of a case is their mean.
        system_instruction: System message before each prompt.
        gen_kwargs: Parameters of requests to the model: temperature, max_tokens, top_p, stop, reasoning_effort,
            extra_body, headers, … They override those that your function passes; None removes one.
        model_args: Arguments of the model's provider.
        base_url: Base URL of the endpoint, or several of the same model. The default is $OPENAI_BASE_URL, else the
            provider's own.
        serve: Command that starts the model's server, with {port} and {model} in it. See docs/servers.md.
        judge: Judge model for the scorers "judge" and `assay.rubric`, and for `ctx.ask(..., role="judge")`. "offline"
            is the rule-based judge, without model calls.
        judge_kwargs: Parameters of requests to the judge, like gen_kwargs.
        votes: Judge calls per verdict; the majority wins.
        output_dir: Folder of the run, "results" by default.
        concurrency: Cases in progress and requests in flight at once, at each endpoint.
        limit: Run only the first N rows. A number below 1 is a fraction: 0.1 runs 10 %.
        seed: Base seed. Repeats of an identical request send seed, seed + 1, seed + 2, …
        timeout: Time limit of a request, of the function and of a scorer, in seconds.
        max_retries: Retries per failed request.
        max_wait: Longest wait before a retry, in seconds, whatever Retry-After says.
        ca_file: PEM file with the certificates to trust. The default is $SSL_CERT_FILE, else the system's.
        insecure: Accept every TLS certificate. Others may read and change what is sent.
        max_calls: Stop after this many model calls. The same call of `evaluate` continues the run.
        max_cost: Stop when the calls of this start have cost so many US dollars. Calls in flight still finish. The same
            call of `evaluate` continues the run.
        prices: YAML file with the prices of models. The default is $ASSAY_PRICES, else the table of assay.
        fresh: Start a new run even if a run with the same arguments exists.
        retry_failed: Run cases with status subject_error again: refusals, context overflows, exceptions in your
            function.
        shard: Run only every N-th row, beginning with the I-th, as one of N jobs: "3/16". Each shard needs its own
            output_dir; `assay.merge` makes one run of them.
        reuse: Reuse replies of this run for the same case and the same request.
        executor: Where cases run: "local" in this process, "ray" in workers on one or many machines (docs/scaling.md).
        address: Address of a Ray cluster. The default is $RAY_ADDRESS, else a cluster of this machine.
        workers: Number of Ray workers. The default is as many as the cluster holds, at most one per open case.
        worker_cpus: CPUs of a Ray worker.
        worker_gpus: GPUs of a Ray worker.
        quiet: Show no progress.

    A case that fails does not raise. `run.cases(failed=True)` lists the wrong answers and the errors, and
    `run.check()` raises if there are errors. Wrong arguments raise UsageError and wrong rows raise InputError, before
    the first model call.

    It can be called while an event loop runs, as in a notebook: the evaluation then runs in its own thread. If your
    function uses objects of the running loop, such as an async client, use `aevaluate`.
    """
    # The parameters are the options, by the same names. They are validated in `_open`, as flags are.
    runner = _open(locals())
    run = run_blocking(lambda: runner)
    if run.exit_code == INTERRUPTED:
        # The run folder is complete. The signal handler caught Ctrl-C, so raise it again for the user's program.
        raise KeyboardInterrupt(f"interrupted; the same call continues {run.folder}")
    return run


async def aevaluate(  # noqa: PLR0913 - the parameters of `evaluate`
    rows: SampleSource,
    *,
    answer: AnswerFunction | Mapping[str, AnswerFunction] | None = None,
    model: ModelLike | Mapping[str, ModelLike] | None = None,
    prompt: PromptLike | Mapping[str, PromptLike] | None = None,
    score: ScorerLike | Sequence[ScorerLike] = (),
    target: str | Sequence[str] = (),
    tags: str | Sequence[str] = (),
    name: str = "",
    version: str = "",
    repeats: int = 1,
    system_instruction: str = "",
    gen_kwargs: Mapping[str, Any] | None = None,
    model_args: Mapping[str, Any] | None = None,
    base_url: str | Sequence[str] | None = None,
    serve: str = "",
    judge: str | None = None,
    judge_kwargs: Mapping[str, Any] | None = None,
    votes: int = 1,
    output_dir: str | Path = "",
    concurrency: int = 16,
    limit: float | None = None,
    seed: int = DEFAULT_SEED,
    timeout: float = 300.0,  # noqa: ASYNC109 - of a request, not of this coroutine
    max_retries: int = 5,
    max_wait: float = 120.0,
    ca_file: str | Path = "",
    insecure: bool = False,
    max_calls: int | None = None,
    max_cost: float | None = None,
    prices: str | Path | None = None,
    fresh: bool = False,
    retry_failed: bool = False,
    shard: str = "",
    reuse: str | Path | None = None,
    executor: str = "local",
    address: str | None = None,
    workers: int | None = None,
    worker_cpus: float = 1.0,
    worker_gpus: float = 0.0,
    quiet: bool = False,
) -> Run:
    """Run `evaluate` in the caller's event loop. It takes the same parameters.

    It installs no signal handlers. To stop it, cancel the task. Calls in flight then finish and are logged, because
    the endpoint bills them anyway. The same call of `aevaluate` continues the run.
    """
    return await _open(locals()).start_or_show()


def _open(values: dict[str, Any]) -> Runner:
    """Return the runner of an evaluation, from the parameters of `evaluate`. It makes no call and writes no file."""
    rows, where = read_rows(values.pop("rows"))
    if callable(values["judge"]):
        function = describe_callable(values["judge"])
        raise UsageError(
            f"judge= takes a name, not a function. Put the function into a file: judge='python/FILE.py:{function}'. "
            "It takes the prompt and the parameters"
        )
    subjects = _name_subjects(values.pop("answer"), values.pop("model"), values.pop("prompt"))
    score = values.pop("score")
    scorers = list(score) if isinstance(score, Sequence) and not isinstance(score, str) else [score]
    name = values["name"] or (Path(where).stem if where != "rows" else next(iter(subjects)))
    options = {key: value for key, value in values.items() if value is not None}
    options |= {
        "name": name,
        "target": _names(values["target"]),
        "tags": _names(values["tags"]),
        "gen_kwargs": dict(values["gen_kwargs"] or {}),
        "judge_kwargs": dict(values["judge_kwargs"] or {}),
        "model_args": dict(values["model_args"] or {}),
        "output_dir": str(values["output_dir"]),
        "ca_file": str(values["ca_file"]),
        "subjects": {subject: _describe(parts) for subject, parts in subjects.items()},
        "prompt": {subject: parts.prompt for subject, parts in subjects.items() if isinstance(parts.prompt, str)},
        "scorers": [_scorer_name(each) for each in scorers],
    }
    names = {parts.model for parts in subjects.values()}
    if len(names) == 1 and isinstance(model := names.pop(), str):
        options["model"] = model  # `assay runs` shows it
    for option in ("reuse", "prices"):
        if values[option] is not None:
            options[option] = str(values[option])
    spec = with_options_of_arguments(build("evaluate", EvaluateOptions, options))
    if not spec.output_dir:
        spec = msgspec.structs.replace(spec, output_dir=EvaluateOptions.default_output)
    # Several addresses are not part of the run. Its models are connected to them by the spec that has them.
    is_several = len(split_urls(spec.base_url)) > 1
    suite_spec = msgspec.structs.replace(spec, base_url=SEVERAL) if is_several else spec
    suite = EvaluateSuite(suite_spec, rows, subjects, scorers)
    observers = progress.observers(quiet=spec.quiet)
    with observed(observers):
        # This suite takes nothing from its models, so it is built before they are connected: a mistake in the rows, the
        # prompt or a scorer is named before one in the name of a model.
        models = open_suite(spec, lambda _: suite, functions=_function_models(suite, subjects)).models
    try:
        return Runner(suite, models, observers, command=[])
    except UnicodeEncodeError as error:
        raise UsageError(f"an argument has a character that is no text: {cut_end(error.object, 80)!r}") from None
    except TypeError as error:
        raise UsageError(f"gen_kwargs and model_args take values of JSON only: {error}") from None


def _function_models(suite: EvaluateSuite, subjects: Mapping[str, SubjectSpec]) -> dict[str, Model]:
    """Return the user's functions that are models, by role. Each is one as with `--model python/FILE.py:function`."""
    models: dict[str, Model] = {}
    for subject, parts in subjects.items():
        role = suite.role_name(subject)
        if role not in models and callable(parts.model):
            identity = suite.identity_of(parts.model, "model=")
            models[role] = PythonModel(
                _prompt_function(parts.model),
                endpoint=f"function:{fingerprint(identity)}",
                timeout=suite.spec.timeout,
                concurrency=suite.spec.concurrency,
            )
    return models


def _name_subjects(
    answer: AnswerFunction | Mapping[str, AnswerFunction] | None,
    model: ModelLike | Mapping[str, ModelLike] | None,
    prompt: PromptLike | Mapping[str, PromptLike] | None,
) -> dict[str, SubjectSpec]:
    """Return the subjects by name. Raises UsageError if more than one of the three is a mapping."""
    mappings = [each for each in (answer, model, prompt) if isinstance(each, Mapping)]
    if len(mappings) > 1:
        raise UsageError("only one of answer, model and prompt may be a mapping of names")
    if answer is None and model is None:
        raise UsageError("nothing is evaluated: pass answer=FUNCTION, or model=NAME with prompt=TEMPLATE")
    for what, value in (("answer", answer), ("model", model), ("prompt", prompt)):
        values = list(value.values()) if isinstance(value, Mapping) else [value]
        for each in values:
            if each is not None and not callable(each) and (what == "answer" or not isinstance(each, str)):
                raise UsageError(
                    f"{what}= takes a function{'' if what == 'answer' else ' or a text'}, not {cut_end(repr(each), 80)}"
                )
    if not mappings:
        name = describe_callable(answer) if callable(answer) else ""
        if not name:
            name = model if isinstance(model, str) else describe_callable(model)  # type: ignore[arg-type]
        return {name: SubjectSpec(answer, model, prompt)}  # type: ignore[arg-type]  # none is a mapping
    if not mappings[0]:
        raise UsageError("nothing is evaluated: the mapping of names is empty")
    subjects = {}
    for name in mappings[0]:
        subjects[str(name)] = SubjectSpec(
            answer[name] if isinstance(answer, Mapping) else answer,
            model[name] if isinstance(model, Mapping) else model,
            prompt[name] if isinstance(prompt, Mapping) else prompt,
        )
    return subjects


def _prompt_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a user's model function, so that it can be called with (prompt, params) like a `python/` model.

    The function gets `params` only if it has a second parameter. A prompt with a single user message is passed as
    a string.
    """
    parameters = parameters_of(function)
    takes_params = parameters is not None and len(parameters) > 1

    def arguments(prompt: Any, params: dict[str, Any]) -> tuple[Any, ...]:
        if isinstance(prompt, list) and len(prompt) == 1 and prompt[0].get("role") == "user":
            prompt = prompt[0]["content"]
        return (prompt, params) if takes_params else (prompt,)

    if user_function.is_async(function):

        async def call_async(prompt: Any, params: dict[str, Any]) -> Any:
            return await function(*arguments(prompt, params))

        return call_async

    def call(prompt: Any, params: dict[str, Any]) -> Any:
        return function(*arguments(prompt, params))

    return call


def _names(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) and value else list(value)


def _describe(parts: SubjectSpec) -> str:
    """Return a short description of a subject, for run.json."""
    if parts.answer is not None:
        return f"{describe_callable(parts.answer)}()"
    return parts.model if isinstance(parts.model, str) else f"{describe_callable(parts.model)}()"  # type: ignore[arg-type]


def _scorer_name(scorer: ScorerLike) -> str:
    if isinstance(scorer, str):
        return scorer
    if isinstance(scorer, (NamedMetric, AnswerJudge, Rubric)):
        return scorer.name
    if isinstance(scorer, OwnScorer):
        return scorer.name or describe_callable(scorer.function)
    return describe_callable(scorer)
