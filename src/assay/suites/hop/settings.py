"""`settings.yaml`: the models of a HOP project, and profiles that say which one runs and which verifies."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from assay.core import registry
from assay.core.envfile import COMMON_KEY, NAME, OWN_KEY, normalised
from assay.core.errors import InputError, Problem, UsageError
from assay.core.findings import Findings, Key
from assay.core.registry import unknown
from assay.core.yamlfile import load_yaml

DEFAULT = "default"
NAMES = ("settings.yaml", "settings.yml")
_LEVELS = 3
_UNUSED = ("protocol", "inference_engine")
_LLM_KEYS = ("model", "base_url", "params", "json_schema", "description", *_UNUSED)
_SECRET = re.compile(
    r"(.*[_-])?(api[_-]?keys?|secret([_-]key)?|password|passwd|authorization|credentials?)"
    r"|((access|auth|bearer|api)[_-])?token|key",
    re.IGNORECASE,
)
_SECRET_TEXT = re.compile(r"\s*(sk-\w|bearer\s)", re.IGNORECASE)


class Llm(Struct, frozen=True, kw_only=True):
    """A model under the name that profiles use. `params` are those of its own over the defaults."""

    name: str
    model: str
    base_url: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    json_schema: bool | None = None
    """Whether its endpoint holds replies to a schema; unsaid, its provider knows."""
    key_variable: str = COMMON_KEY

    @property
    def model_name(self) -> str:
        """Without its provider, as meta lines show it."""
        return self.model.partition("/")[2]

    def key_in(self, environment: Mapping[str, str] = os.environ, file: Collection[str] = ()) -> str:
        """The variable that holds its key: its own, however it is spelt, else the one common to all.

        `file` has the names of a `.env`; the environment wins over it. Where neither has one it is the one to
        set, if a shell can do that.
        """
        own = [name for name, value in environment.items() if value and normalised(name) == self.key_variable]
        if own:
            return min(own, key=lambda name: name != self.key_variable)
        if self.key_variable in file:
            return self.key_variable
        common = environment.get(COMMON_KEY) or COMMON_KEY in file
        settable = self.key_variable.isascii() and self.key_variable.isidentifier()
        return self.key_variable if settable and not common else COMMON_KEY


class Profile(Struct, frozen=True, kw_only=True):
    """What is compared: the names of the llm that runs and of the one that verifies."""

    name: str
    run: str
    verify: str


class Settings(Struct, frozen=True, kw_only=True):
    """Everything a settings file says; `notices` are for people, `env_file` may hold keys.

    `shared_endpoint`: OPENAI_BASE_URL leads to the run's model, for functions that cannot be told an address.
    """

    llms: dict[str, Llm]
    profiles: dict[str, Profile]
    defaults: dict[str, Any] = field(default_factory=dict)
    shared_endpoint: bool = False
    notices: tuple[str, ...] = ()
    env_file: str = ""

    def chosen(self, names: Iterable[str] = ()) -> list[Profile]:
        """The profiles of these names, each once; without names every one, in the order of the file."""
        wanted = list(dict.fromkeys(names)) or list(self.profiles)
        wrong = [name for name in wanted if name not in self.profiles]
        if wrong:
            raise UsageError("\n".join(unknown("profile", name, list(self.profiles)) for name in wrong))
        return [self.profiles[name] for name in wanted]

    def models(self, profile: Profile) -> tuple[Llm, Llm]:
        """The one that runs and the one that verifies."""
        return self.llms[profile.run], self.llms[profile.verify]


def default_settings(model: str, base_url: str | None = None) -> Settings:
    """For a project without a file: one profile, in which `--model` does both."""
    llm = Llm(name=DEFAULT, model=full_model(model), base_url=base_url)
    profile = Profile(name=DEFAULT, run=DEFAULT, verify=DEFAULT)
    return Settings(llms={DEFAULT: llm}, profiles={DEFAULT: profile})


def find_settings(given: str | None, beside: Path, task: Path) -> Path | None:
    """The file to read: the one given; else beside the target, in the task's folder, above it, or here."""
    if given is not None:
        if not Path(given).is_file():
            raise UsageError(f"there is no settings file {given!r}")
        return Path(given)
    task = task.resolve()
    folders = [beside.resolve(), task, *list(task.parents)[:_LEVELS], Path.cwd()]
    found = (folder / name for folder in folders for name in NAMES)
    return next((path for path in found if path.is_file()), None)


def load_settings(path: Path) -> Settings:
    """The settings of a file; raises InputError with every problem in it."""
    return _Reader(path).settings()


def settings_problems(path: Path) -> list[Problem]:
    """Everything to say of a file, warnings too; raises InputError if it is no YAML."""
    reader = _Reader(path)
    with suppress(InputError):
        reader.settings()
    return list(dict.fromkeys(reader.found.problems))


def full_model(name: str) -> str:
    """`PROVIDER/NAME`; a name whose first part is no provider of ours is one of an OpenAI-like endpoint."""
    provider, slash, _ = name.partition("/")
    if not name or (slash and provider in registry.names("model")):
        return name
    return f"openai/{name}"


def key_variable(name: str) -> str:
    """`HOP_KEY_X_Y_Z` for an llm named `x-y.z`."""
    return normalised(f"{OWN_KEY}{name}")


class _Reader:
    def __init__(self, path: Path) -> None:
        yaml = load_yaml(path)
        self._value: dict[str, Any] = yaml.value
        self.found = Findings(yaml)

    def settings(self) -> Settings:
        found = self.found
        found.known(self._value, ("defaults", "llms", "profiles", "shared_endpoint"))
        for at in _secrets(self._value):
            found.add(at, "a key does not belong in this file; set HOP_KEY_<LLM> or OPENAI_API_KEY instead")
        defaults = self._params(found.typed(self._value, "defaults", dict) or {}, ("defaults",))
        llms = self._llms(defaults)
        profiles = self._profiles()
        shared_endpoint = found.typed(self._value, "shared_endpoint", bool)
        found.refuse()
        return Settings(
            llms=llms,
            profiles=profiles,
            defaults=defaults,
            shared_endpoint=shared_endpoint or False,
            notices=tuple(found.warnings()),
            env_file=_env_file(found.yaml.path),
        )

    def _named(self, block: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """The mappings of a block by name; others are problems."""
        given = self.found.typed(self._value, block, dict)
        if not given:
            if given is not None or self._value.get(block) is None:
                self.found.add((block,), f"settings need at least one of the {block}")
            return
        for name, value in given.items():
            if not isinstance(name, str) or not name.strip():
                self.found.add((block, str(name)), f"a name is a text; put {name!r} in quotes")
            elif not isinstance(value, dict):
                self.found.add((block, name), f"expected a mapping, found {value!r}")
            else:
                yield name, value

    def _llms(self, defaults: dict[str, Any]) -> dict[str, Llm]:
        return {name: self._llm(name, value, defaults) for name, value in self._named("llms")}

    def _llm(self, name: str, value: dict[str, Any], defaults: dict[str, Any]) -> Llm:
        found, at = self.found, ("llms", name)
        for key in value:
            if key not in _LLM_KEYS and not _SECRET.fullmatch(str(key)):
                told = unknown("key", str(key), list(_LLM_KEYS))
                found.add((*at, str(key)), f"{told} (parameters of requests stand in `params`)")
        model = found.typed(value, "model", str, at)
        if not (model and model.strip()) and (model is not None or value.get("model") is None):
            found.add((*at, "model"), "an llm needs a model: its name, or PROVIDER/NAME")
        for key in _UNUSED:
            if key in value:
                told = "every endpoint is spoken to as its provider is; this is not acted on"
                found.add((*at, key), told, "warning")
        own = self._params(found.typed(value, "params", dict, at) or {}, (*at, "params"))
        return Llm(
            name=name,
            model=full_model((model or "").strip()),
            base_url=self._url(value, at),
            params=defaults | own,
            json_schema=found.typed(value, "json_schema", bool, at),
            key_variable=key_variable(name),
        )

    def _url(self, value: dict[str, Any], at: Key) -> str | None:
        url: str | None = self.found.typed(value, "base_url", str, at)
        if url is None:
            return None
        if not url.startswith(("http://", "https://")):
            self.found.add((*at, "base_url"), f"an endpoint begins with http:// or https://, not {url!r}")
        elif "@" in url.partition("//")[2].partition("/")[0]:
            told = "a password in an endpoint would be written down; set HOP_KEY_<LLM> instead"
            self.found.add((*at, "base_url"), told)
        return url

    def _params(self, given: dict[Any, Any], at: Key) -> dict[str, Any]:
        for key, value in given.items():
            if not isinstance(key, str):
                self.found.add((*at, str(key)), f"a parameter's name is a text; put {key!r} in quotes")
            elif not _is_json(value):
                self.found.add((*at, key), f"expected a JSON value, found {value!r}")
        return given

    def _profiles(self) -> dict[str, Profile]:
        return {name: self._profile(name, value) for name, value in self._named("profiles")}

    def _profile(self, name: str, value: dict[str, Any]) -> Profile:
        self.found.known(value, ("run", "verify", "description"), ("profiles", name))
        run = self._side(value, "run", ("profiles", name))
        if value.get("run") is None:
            self.found.add(("profiles", name, "run"), "a profile names the llm that runs: `run: NAME`")
        return Profile(name=name, run=run, verify=self._side(value, "verify", ("profiles", name)) or run)

    def _side(self, value: dict[str, Any], side: str, at: Key) -> str:
        named: str | None = self.found.typed(value, side, str, at)
        llms = self._value.get("llms")
        known = [str(name) for name in llms] if isinstance(llms, dict) else []
        if named is not None and named not in known:
            self.found.add((*at, side), unknown("llm", named, known))
        return named or ""


def _env_file(settings: Path) -> str:
    """The `.env` beside the settings, else the one here; empty if there is none."""
    places = (folder / NAME for folder in (settings.resolve().parent, Path.cwd()))
    return str(next((place for place in places if place.is_file()), ""))


def _secrets(value: Any, at: Key = ()) -> Iterator[Key]:
    """Where something stands that looks like a key; an llm or a profile may have any name."""
    if isinstance(value, str) and _SECRET_TEXT.match(value):
        yield at
    elif isinstance(value, dict):
        for key, item in value.items():
            if at not in (("llms",), ("profiles",)) and _SECRET.fullmatch(str(key)):
                yield (*at, str(key))
            else:
                yield from _secrets(item, (*at, str(key)))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _secrets(item, (*at, place))


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(_is_json, value))
    if isinstance(value, float):
        return isfinite(value)
    return value is None or isinstance(value, (str, int))
