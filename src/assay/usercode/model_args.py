"""The arguments of `--model-args`: which of them a provider gets, which set an option, which are refused.

    spec = with_options_of_arguments(spec)       # `num_concurrent=8` sets --concurrency
    notices = check_arguments(spec, role)        # raises UsageError for a name that the provider does not know
    connection_args = arguments_for(spec, role)
    args = read_args(connection_args, LocalArgs)  # a provider's own struct; UsageError for a wrong value

A provider lists its names in `About.args`; a provider of assay has a struct with a field for each. The names of
lm-evaluation-harness that have no meaning here are accepted with a sentence, so that its commands can be typed
unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from assay.core import registry
from assay.core.envfile import COMMON_KEY
from assay.core.errors import Problem, UsageError, unknown
from assay.core.roles import About, Role
from assay.core.spec import RunSpec, SuiteOptions, build
from assay.files.schema import YAML_WORDING, KeyPath, convert
from assay.usercode.plugins import describe_provider

ArgsT = TypeVar("ArgsT", bound=Struct)
Count = Annotated[int, Meta(ge=1, description="a whole number of at least 1")]
"""A number of things."""
CountOrZero = Annotated[int, Meta(ge=0, description="a whole number of at least 0")]
"""A number of things of which there may be none, or an id."""
Word = str | int | float
"""A text that a command line reads as a number if it looks like one, such as `revision=1.0`."""

# Arguments that set an option of assay, and that option.
OPTIONS = {
    "base_url": "base_url",
    "num_concurrent": "concurrency",
    "max_retries": "max_retries",
    "timeout": "timeout",
    "seed": "seed",
}
# Names of the model in the harness. Here `--model PROVIDER/NAME` has it.
NAMES = frozenset({"model", "pretrained"})
_SECRETS = frozenset({"api_key", "key", "token", "auth_token"})
# Arguments of the harness with another place here. The suite's options say what {limit} is.
_ELSEWHERE = {
    "max_gen_toks": "use --gen-kwargs {limit}=N",
    "max_tokens": "use --gen-kwargs {limit}=N",
    "temperature": "use --gen-kwargs temperature=N",
    "top_p": "use --gen-kwargs top_p=N",
    "header": "use --gen-kwargs with headers",
    "system": "use --system-instruction TEXT",
    "verify_certificate": "use --insecure to accept any certificate",
    "ca_cert_path": "use --ca-file FILE",
}
_NOT_BATCHED = "requests are never batched; --concurrency sets how many are sent at once"
_OWN_TOKENIZER = "the model's own tokenizer is used"
_LIKELIHOODS = "only the likelihoods of openai-completions need it"
_NOT_CUT = "prompts are not cut; only openai-completions does so, if its endpoint has a tokenizer"
# Arguments of the harness that do nothing for a provider that does not take them, with the reason.
_NO_EFFECT = {
    "batch_size": _NOT_BATCHED,
    "max_batch_size": _NOT_BATCHED,
    "device": "the provider of this model takes no device",
    "trust_remote_code": "data sets with code are loaded only if the task file sets trust_remote_code",
    "tokenizer": _OWN_TOKENIZER,
    "use_fast_tokenizer": _OWN_TOKENIZER,
    "tokenizer_backend": _LIKELIHOODS,
    "tokenized_requests": _LIKELIHOODS,
    "max_length": _NOT_CUT,
    "add_bos_token": _LIKELIHOODS,
    "custom_prefix_token_id": _LIKELIHOODS,
    "eos_string": _LIKELIHOODS,
    "truncate": "it has no effect in the harness either",
}
# Not passed to a server that assay starts, although it takes any other argument: servers have no such options.
_OF_THE_HARNESS = frozenset({"batch_size", "max_batch_size", "device"})
# They change how fast replies come, not which, so a run continues with another value: a batch that was too large for
# the memory is made smaller.
_HOW = frozenset({"batch_size", "max_batch_size", "device", "start_timeout"})


def with_options_of_arguments(spec: RunSpec) -> RunSpec:
    """Return the spec with the options that `--model-args` sets, such as `base_url` and `num_concurrent`.

    Raises UsageError for a wrong value, and for an API key: arguments are saved in the run folder.
    """
    if secret := sorted(_SECRETS & spec.model_args.keys()):
        provider = spec.model.partition("/")[0]
        keys = describe_provider(provider).keys if registry.is_known("model", provider) else ()
        variable = " or ".join(keys) or f"{COMMON_KEY}, or the variable of your provider,"
        raise UsageError(f"--model-args {secret[0]}: API keys are read from the environment; set {variable} instead")
    changes = {option: spec.model_args[name] for name, option in OPTIONS.items() if name in spec.model_args}
    if not changes:
        return spec
    # Built anew, and not replaced field by field, so that the values are checked like flags.
    values = msgspec.structs.asdict(spec)
    del values["suite"], values["options"]
    checked = build(spec.suite, SuiteOptions, values | changes, "--model-args")
    return msgspec.structs.replace(checked, options=spec.options)


def arguments_for(spec: RunSpec, role: Role) -> dict[str, Any]:
    """Return the arguments that the provider of a role gets.

    The arguments of the run are for the provider of its main model, so a judge of another provider gets none.
    """
    given, defaults = _given(spec, role), spec.options.argument_defaults(spec.model_args)
    if not given and (not defaults or role.mark != "ask"):
        return {}
    about = _describe(spec, role)
    own = {name: value for name, value in defaults.items() if name in about.args and role.mark == "ask"}
    return own | {name: value for name, value in given.items() if _takes(about, name)}


def read_args(args: Mapping[str, Any], schema: type[ArgsT]) -> ArgsT:
    """Return the arguments as a provider's struct. Raises UsageError for a wrong name or value.

    Numbers may be texts, since a flag such as `--batch_size 8` is one. The text `None` is None: the harness's commands
    are written in Python's words.
    """
    values = {name: None if value == "None" else value for name, value in args.items()}
    try:
        return msgspec.convert(values, schema, strict=False)
    except UnicodeEncodeError as error:
        raise UsageError(f"--model-args: {error.object!r} is not UTF-8") from None
    except msgspec.ValidationError as error:
        problems: list[Problem] = []
        place = str(error).partition(" - at `$.")[2].rstrip("`").partition(".")[0]
        # Only the wrong arguments: to `convert`, a number as text is wrong too.
        wrong = {place} if place in values else values.keys() - set(schema.__struct_fields__)
        convert({name: values[name] for name in wrong}, schema, _Arguments(), problems)
        raise UsageError(str(problems[0]) if problems else f"--model-args: {error}") from None


class _Arguments:
    """Where wrong arguments stand, for their messages."""

    wording = YAML_WORDING

    def problem(self, path: KeyPath, message: str, level: str = "error") -> Problem:
        return Problem(f"--model-args {path[0]}", message, level)


def ask_arguments(spec: RunSpec, roles: Iterable[Role]) -> dict[str, Any]:
    """Return the arguments that can change a reply, for the identity of a run."""
    arguments: dict[str, Any] = {}
    for role in roles:
        if role.mark == "ask":
            arguments |= arguments_for(spec, role)
    return {name: value for name, value in arguments.items() if name not in _HOW}


def check_arguments(spec: RunSpec, role: Role) -> list[str]:
    """Return a sentence for each argument that does nothing. Raises UsageError for one that is unknown."""
    given = _given(spec, role)
    if not given:
        return []
    about, flags = _describe(spec, role), spec.options.model_arguments()
    provider, _, name = role.model.partition("/")
    notices = []
    for key, value in given.items():
        if _takes(about, key):
            continue
        if key in NAMES:
            if role.model == spec.model and str(value) not in (name, role.model):
                raise UsageError(f"--model-args {key}: --model names {name!r}, not {value!r}; write one of them")
        elif key in _ELSEWHERE:
            advice = _ELSEWHERE[key].format(limit=spec.options.limit_name)
            raise UsageError(f"--model-args {key}: {advice}")
        elif key in _NO_EFFECT:
            is_flag = key in flags and key not in spec.model_args
            flag = f"--{key.replace('_', '-')}" if is_flag else f"--model-args {key}"
            notices.append(f"{flag} is ignored: {_NO_EFFECT[key]}")
        elif key not in OPTIONS:
            known = sorted(about.args | OPTIONS.keys())
            raise UsageError(f"--model-args: {unknown(f'argument of {provider}', key, known)}")
    return notices


def argument_notices(spec: RunSpec, roles: Iterable[Role]) -> list[str]:
    """Return the sentences of `check_arguments` for all roles, each once.

    Raises UsageError if there are arguments and no model that gets any.
    """
    roles = list(roles)
    if spec.model_args and not any(_given(spec, role) for role in roles):
        raise UsageError("--model-args: this run has no model to pass them to. Remove them, or pass --model")
    return list(dict.fromkeys(notice for role in roles for notice in check_arguments(spec, role)))


def _given(spec: RunSpec, role: Role) -> dict[str, Any]:
    """Return the arguments of a role before any is left out: its own, or those of the run."""
    if role.args:
        return role.args
    main, provider = (model.partition("/")[0] for model in (spec.model, role.model))
    # Without a main model, each model of the user has arguments, but not a judge.
    if provider == main if main else role.mark == "ask":
        return spec.options.model_arguments() | spec.model_args
    return {}


def _takes(about: About, name: str) -> bool:
    if name in about.args:
        return True
    is_general = name in OPTIONS or name in NAMES or name in _ELSEWHERE or name in _OF_THE_HARNESS
    return about.any_args and not is_general


def takes_do_sample(model: str) -> bool:
    """Return whether the model's provider takes the parameter `do_sample`. False if the provider is not installed."""
    provider = model.partition("/")[0]
    return registry.is_known("model", provider) and describe_provider(provider).takes_do_sample


def _describe(spec: RunSpec, role: Role) -> About:
    """Return the description of a role's provider. Raises UsageError for an unknown provider."""
    about = describe_provider(role.model.partition("/")[0])
    # The limit for the start of a server that --serve starts, whoever the provider is.
    return msgspec.structs.replace(about, args=about.args | {"start_timeout"}) if spec.serve else about
