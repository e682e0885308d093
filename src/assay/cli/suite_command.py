"""Builds a suite's command from its options: each field is a flag or an argument, the docstring is the help.

    class QuizOptions(SuiteOptions, frozen=True, kw_only=True):
        \"\"\"Ask the questions of a file.\"\"\"

        file: Annotated[str, ask("JSON lines of question and answer.", positional="FILE")] = ""
        shout: Annotated[bool, ask("Ask in capital letters.")] = False

becomes `assay quiz FILE [--shout]` with all common options. For `--help` only the options are imported, so that it
is fast. The suite is imported when it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_origin

import click

from assay.cli.completion import complete_files, completer_for
from assay.core.errors import StopRun, UsageError
from assay.core.events import on_slow
from assay.core.spec import Field, RunSpec, SuiteOptions, build, fields
from assay.store.render.screen import tell
from assay.suites import find_options, find_suite

if TYPE_CHECKING:
    from msgspec import Struct

    from assay.runner.results import Run

SETTINGS: dict[str, Any] = {
    # lm-evaluation-harness writes flags with `_`; both spellings work everywhere.
    "token_normalize_func": lambda token: token.replace("_", "-"),
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
}
TYPES = {int: click.INT, float: click.FLOAT, str: click.STRING}
# Prefix of the parameter for a flag that means the same as an argument, such as `--tasks` and TASK.
FLAG_OF_ARGUMENT = "flag_of_"


class SuiteCommandLine(click.Command):
    """The command of a suite. It accepts other tools' flags, and names the new flag if a flag was renamed."""

    def __init__(self, suite: str, words: str, options: type[SuiteOptions]) -> None:
        self.suite = suite
        self.words = words
        self.options = options
        self.own, self.common = _parameters(options, options), _parameters(RunSpec, options)
        self.common += [
            click.Option(["--config"], type=click.Path(path_type=Path), help="YAML file with any of these options."),
            click.Option(["--dry-run"], is_flag=True, help="Show the planned requests; send none and write no files."),
        ]
        if options.watchable:
            self.common.append(
                click.Option(
                    ["--watch"],
                    is_flag=True,
                    help="Run again whenever a file that the run read is saved. Only changed requests are sent.",
                )
            )
        epilog = f"\b\nExamples:\n{_indented(options.examples)}" if options.examples.strip() else None
        super().__init__(
            words.rpartition(" ")[2],
            params=[*self.own, *self.common, *_ignored_flags(options)],
            callback=self.run,
            help=options.__doc__,
            epilog=epilog,
            context_settings=SETTINGS,
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Translate other tools' flags, then parse."""
        if ctx.resilient_parsing:  # a shell completes a command that is not finished
            return super().parse_args(ctx, args)
        renamed = {_normal(old): new for old, new in self.options.renamed.items()}
        for word in args:
            flag = _normal(word.partition("=")[0])
            if flag in renamed:
                raise click.UsageError(f"{flag} is called {renamed[flag]} here", ctx)
        return super().parse_args(ctx, self.options.translate(list(args), tell))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write arguments, the suite's options, the common options, and the marks of all options."""
        arguments = [
            (field.extra["positional"], field.help)
            for field in fields(self.options)
            if "positional" in field.extra and field.help
        ]
        help_option = self.get_help_option(ctx)
        own, common = (
            [
                record
                for parameter in parameters
                if isinstance(parameter, click.Option) and (record := parameter.get_help_record(ctx))
            ]
            for parameters in (self.own, [*self.common, *([help_option] if help_option else [])])
        )
        sections = (
            ("Arguments", arguments),
            ("Options", own),
            ("Common options", common),
            ("Effect of a changed option on an existing run", self._mark_rows()),
        )
        for title, rows in sections:
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def _mark_rows(self) -> list[tuple[str, str]]:
        """Return what a changed option does to an existing run, with the flags of which this is true."""
        flags: dict[str, list[str]] = {"ask": [], "score": [], "how": []}
        for struct in (self.options, RunSpec):
            for field in fields(struct):
                if "positional" in field.extra:
                    flags[field.mark].append(field.extra["positional"])
                elif field.extra.get("cli", True):
                    flags[field.mark].append(field.flags[0])
        rows = [
            ("starts another run", ", ".join(flags["ask"])),
            ("scores the replies again", ", ".join(flags["score"])),
            ("continues the run", "all other options" if flags["ask"] or flags["score"] else "all options"),
        ]
        return [row for row in rows if row[1]]

    def spec(self, flags: dict[str, Any], config: Path | None = None) -> RunSpec:
        """Return the values of the configuration file, overridden by the flags."""
        values: dict[str, Any] = {}
        if config is not None:
            values = self.options.translate_values(read_config(self.options, config), tell)
            # Built once without the flags, so that an error in the file is reported with the file's name.
            build(self.suite, self.options, values, str(config))
        return build(self.suite, self.options, values | self.options.translate_values(_values(flags), tell))

    def run(self, config: Path | None, dry_run: bool, watch: bool = False, **flags: Any) -> int:
        """Run the suite and print its report. Returns the exit code."""
        for flag, reason in self.options.ignored.items():
            if flags.pop(_parameter_name(flag), None):
                tell(f"{flag.partition(' ')[0]} is ignored: {reason}")
        if not watch:
            return run_suite(self.spec(flags, config), dry_run=dry_run)
        from assay.cli.watch import watch_suite

        if dry_run:
            raise click.UsageError("--watch and --dry-run exclude each other: nothing is read again without a run")
        spec = self.spec(flags, config)
        if find_suite(spec.suite).instead_of_run(spec) is not None:
            raise click.UsageError("--watch needs a run, and this command only reads results. Remove --watch")
        return watch_suite(self, flags, config)

    def spec_of_words(self, words: list[str]) -> RunSpec:
        """Return the spec of a command line; `words` stand behind the command. Flags without effect are dropped."""
        with self.make_context(self.name, words) as context:
            flags = dict(context.params)
        for name in ("dry_run", "watch", *map(_parameter_name, self.options.ignored)):
            flags.pop(name, None)
        return self.spec(flags, flags.pop("config"))


def suite_command(suite: str, words: str = "") -> SuiteCommandLine:
    """Return the command of a suite, which is found by its name or file."""
    options = find_options(suite)
    return SuiteCommandLine(suite, words or options.command or suite, options)


def run_suite(spec: RunSpec, *, dry_run: bool = False) -> int:
    """Run a spec, and print progress and report. Returns the exit code. With --quiet only errors are printed."""
    if spec.quiet:
        on_slow.set(None)
    instead = find_suite(spec.suite).instead_of_run(spec)
    if instead is None and not dry_run and not spec.options.shows_sections():
        return run_and_print(spec).exit_code
    from assay.cli.printer import print_notices, print_overview, print_report, print_sections
    from assay.core.report import Report
    from assay.runner import api

    if isinstance(instead, Report):
        print_report(instead)
        print_notices(instead)
        return 0
    if isinstance(instead, str):
        click.echo(instead)
        return 0
    if instead is not None:
        print_sections(instead)
        return 0
    if dry_run:
        print_overview(api.overview(spec))
        return 0
    print_sections(api.overview(spec).sections)
    return run_and_print(spec).exit_code


def run_and_print(spec: RunSpec) -> Run:
    """Run a spec, and print its progress and report. With --quiet only errors are printed."""
    from assay.runner import api
    from assay.runner.progress import observers

    run = api.run(spec, observers(quiet=spec.quiet))
    # After the run, so that the first request does not wait for them.
    from assay.cli.footer import print_errors
    from assay.cli.printer import print_run

    try:
        if not spec.quiet:
            print_run(run)
        else:
            print_errors(run)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StopRun(
            f"cannot print the report: {error.strerror}. The files of the run are complete in {run.folder}. "
            "Run the same command again, or `assay show` with this folder, to see it"
        ) from error
    return run


def read_config(options: type[SuiteOptions], path: Path) -> dict[str, Any]:
    """Return the values of a `--config` file. Keys are flags, also their second names. A list may be `a,b`."""
    from assay.files.yaml_files import load_yaml

    all_fields = [*fields(RunSpec), *fields(options)]
    names = {flag[2:].replace("-", "_"): field.name for field in all_fields for flag in field.flags}
    lists = {field.name for field in all_fields if get_origin(field.type) is list}
    ignored = {_parameter_name(flag): flag for flag in options.ignored}
    values: dict[str, Any] = {}
    for key, value in load_yaml(path).value.items():
        name = names.get(str(key), str(key))  # YAML has numbers and null as keys too
        if name in ignored:
            if value:
                flag = ignored[name]
                tell(f"{flag.partition(' ')[0]} is ignored: {options.ignored[flag]}")
        elif name in lists and isinstance(value, str):
            values[name] = value.split(",")
        else:
            values[name] = value
    return values


def _values(flags: dict[str, Any]) -> dict[str, Any]:
    """Return the flags that the user passed. The values of an argument and of its flag are joined."""
    values: dict[str, Any] = {}
    for name, value in flags.items():
        if value is None or value == ():
            continue
        if isinstance(value, tuple):
            values.setdefault(name.removeprefix(FLAG_OF_ARGUMENT), []).extend(value)
        else:
            key = name.removeprefix(FLAG_OF_ARGUMENT)
            if key in values and values[key] != value:
                raise UsageError(f"the {key} is named twice, {values[key]} and {value}; name one of them")
            values[key] = value
    return values


# Fields as parameters of click.


def _parameters(struct: type[Struct], options: type[SuiteOptions]) -> list[click.Parameter]:
    """Return the parameters for the fields of a struct. Some defaults depend on the suite, whose options are given."""
    parameters: list[click.Parameter] = []
    defaults = {"output_dir": options.default_output, **options.default_params}
    own = {field.name for field in fields(options)} if struct is not options else set()
    for field in fields(struct):
        if field.name in own:
            continue  # a suite may have an option of the same name with a meaning of its own, as `--workers` of hop
        if default := defaults.get(field.name):
            field = field._replace(help=f"{field.help}  [default: {default}]")  # noqa: PLW2901
        if metavar := field.extra.get("positional"):
            several = get_origin(field.plain_type) is list
            # click does not require arguments, because a configuration file may have them. The suite checks them.
            parameters.append(
                click.Argument(
                    [field.name],
                    required=False,
                    nargs=-1 if several else 1,
                    metavar=metavar,
                    shell_complete=complete_files,
                )
            )
            if field.extra.get("flags"):
                parameters.append(_option(field, f"{FLAG_OF_ARGUMENT}{field.name}"))
        elif field.extra.get("cli", True):
            parameters.append(_option(field, field.name))
    return parameters


def option_of(field: Field) -> click.Option:
    """Return the flag of a field, for commands that have some of the common options."""
    return _option(field, field.name)


def _option(field: Field, name: str) -> click.Option:
    flags, kind = field.flags, field.plain_type
    settings: dict[str, Any] = {"default": None, "help": field.help + _default_text(field)}
    if kind is bool and field.default is None:
        settings |= {"is_flag": False, "flag_value": "true"}  # `--flag`, `--flag true` or `--flag false`
    elif kind is bool:
        if field.default:
            flags = [f"{flags[0]}/--no-{flags[0][2:]}"]
        settings["is_flag"] = True
    elif get_origin(kind) is list or field.extra.get("repeat"):
        settings["multiple"] = True
    else:
        settings["type"] = click.STRING if field.extra.get("as_text") else TYPES.get(kind, click.STRING)
    settings["shell_complete"] = completer_for(field.name, kind)
    return click.Option([*flags, name], **settings)


def _default_text(field: Field) -> str:
    if field.default in (None, "", [], {}) or isinstance(field.default, bool):
        return ""
    if "[default:" in field.help:
        return ""  # the help describes a default that depends on something else
    if isinstance(field.default, float):
        return f"  [default: {field.default:g}]"
    return f"  [default: {field.default}]"


def _ignored_flags(options: type[SuiteOptions]) -> Sequence[click.Option]:
    """Return hidden options for other tools' flags that do nothing here."""
    parameters = []
    for text in options.ignored:
        flag, _, value = text.partition(" ")
        settings: dict[str, Any] = {"hidden": True, "default": None}
        if not value:
            settings["is_flag"] = True
        elif value.startswith("["):
            settings |= {"is_flag": False, "flag_value": "true"}
        parameters.append(click.Option([flag, _parameter_name(text)], **settings))
    return parameters


def _parameter_name(flag: str) -> str:
    return flag.partition(" ")[0].lstrip("-").replace("-", "_")


def _normal(flag: str) -> str:
    return flag.replace("_", "-") if flag.startswith("--") else flag


def _indented(text: str) -> str:
    lines = text.strip("\n").splitlines()
    return "\n".join(line if line.startswith("  ") else f"  {line}" for line in lines) + "\n"
