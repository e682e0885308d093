"""Runs JavaScript in QuickJS (the package quickjs-ng), inside the worker process.

    text = run(source, entries=["aggregate", "transform"], argument={"a": 1}, seconds=10, memory_mb=256)
    json.loads(text)    # the value of the code's entry function

QuickJS has the language and nothing else: no files, network, processes, timers or `require`. The code gets no
Python object either. Every run has a context of its own, so nothing carries over to the next.

`worker.py` imports this file as a script's neighbour, without the package: it must import nothing of assay.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from typing import Any

import quickjs

MEMORY_MB = 256
# For checking the syntax in assay's own process. A parser needs no more.
_SYNTAX_SECONDS = 5
# A larger limit overflows in the engine, which then stops the code at once.
_MAX_SECONDS = 1_000_000
# Part of the time limit after which an interruption counts as the limit. The code can throw the same error.
_MOST_OF = 0.9

_FRAME = re.compile(r"^    at (.*?) ?\(<input>:(\d+):\d+\)$", re.MULTILINE)
_SYNTAX_PLACE = re.compile(r"^    at <input>:(\d+):\d+$", re.MULTILINE)
# Names of Node.js and of browsers that code may expect.
_MISSING_NAME = re.compile(
    r"ReferenceError: could not load module|"
    r"ReferenceError: (require|process|Buffer|fetch|XMLHttpRequest|setTimeout|setInterval|setImmediate|window|"
    r"document|__dirname|__filename|structuredClone|TextEncoder|TextDecoder|URL|Intl) is not defined"
)
_NO_NODE = "; code runs without Node.js: it has no require, files, network, processes or timers"
_NO_MODULES = "; import and export are not supported: assign the function to module.exports"

# Calls the code's entry function and encodes its result. The code may replace any built-in function, so the
# functions that are used after the code has run are copied first. That keeps messages right; it protects
# nothing, because whatever the code does here can only spoil its own result.
_BRIDGE = r"""
(function () {
  "use strict";
  const stringify = JSON.stringify, toText = String, isArray = Array.isArray, isFinite = Number.isFinite;
  const apply = Reflect.apply, resolve = Promise.resolve.bind(Promise), defineProperty = Object.defineProperty;
  const slice = Function.prototype.call.bind(String.prototype.slice);
  const then = Function.prototype.call.bind(Promise.prototype.then);
  // JSON.stringify writes these as {}, without their content.
  const lossy = {Map, Set, WeakMap, WeakSet, RegExp, Error, Promise, ArrayBuffer, DataView};
  const lossyNames = Object.keys(lossy);
  const typedArray = Object.getPrototypeOf(Uint8Array);

  let printed = "";
  function show(value) {
    try {
      if (typeof value === "string") return value;
      if (typeof value === "object" && value !== null && !(value instanceof lossy.Error)) {
        return stringify(value) || toText(value);
      }
      return toText(value);
    } catch {
      return "(cannot be shown)";
    }
  }
  function print(...values) {
    let line = "";
    for (let i = 0; i < values.length; i++) line += (i ? " " : "") + show(values[i]);
    line = printed + line + "\n";
    printed = line.length <= PRINTED ? line : slice(line, -PRINTED);
  }
  const console = {};
  for (const name of ["log", "info", "warn", "error", "debug", "trace"]) console[name] = print;

  const module = {exports: {}};
  const globals = {console, module, exports: module.exports};
  for (const name in globals) {
    // Configurable: the code may declare `const module` itself.
    defineProperty(globalThis, name, {value: globals[name], writable: true, configurable: true});
  }

  // Mulberry32 with a fixed seed: the same code and inputs give the same result.
  let seed = 1;
  Math.random = function random() {
    seed = (seed + 0x6D2B79F5) | 0;
    let bits = Math.imul(seed ^ (seed >>> 15), seed | 1);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), bits | 61)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 4294967296;
  };

  let state = "pending", value;
  function fail(error) {
    state = "raised";
    value = error;
  }

  function findEntry(names, functions) {
    const exported = module.exports;
    if (typeof exported === "function") return {entry: exported, self: undefined};
    for (let i = 0; i < names.length; i++) {
      const entry = exported !== null && exported !== undefined ? exported[names[i]] : undefined;
      if (typeof entry === "function") return {entry, self: exported, name: names[i]};
    }
    for (let i = 0; i < names.length; i++) {
      const entry = functions[names[i]];
      if (typeof entry === "function") return {entry, self: undefined, name: names[i]};
    }
  }

  function assayCall(names, functions, argument) {
    try {
      const target = findEntry(names, functions);
      if (target === undefined) return void (state = "no_entry");
      if (target.name !== undefined && target.entry.length > 1) {
        state = "parameters";
        value = target.name;
        return;
      }
      // Prompt Lab passes the items of an aggregation as {items: [...]}. This makes both forms work.
      if (isArray(argument)) defineProperty(argument, "items", {value: argument});
      const result = apply(target.entry, target.self, [argument]);
      if (result !== null && typeof result === "object" && typeof result.then === "function") {
        then(resolve(result), (item) => { state = "done"; value = item; }, fail);
      } else {
        state = "done";
        value = result;
      }
    } catch (error) {
      fail(error);
    }
  }

  function unsuitable(item) {
    const type = typeof item;
    if (type === "function" || type === "symbol") return "a " + type;
    if (type === "bigint") return "a BigInt";
    if (type === "number" && !isFinite(item)) return toText(item);
    if (type === "object" && item !== null) {
      for (let i = 0; i < lossyNames.length; i++) {
        if (item instanceof lossy[lossyNames[i]]) return "an object of the class " + lossyNames[i];
      }
      if (item instanceof typedArray) return "a typed array";
    }
  }

  function encodeResult() {
    // The objects from the result down to the current one, with their paths.
    const parents = [], paths = [];
    let depth = 0, problem;
    try {
      return stringify(value === undefined ? null : value, function (key, item) {
        while (depth && parents[depth - 1] !== this) depth--;
        const path = !depth ? "result" : paths[depth - 1] + "[" + (isArray(this) ? key : stringify(key)) + "]";
        const reason = unsuitable(item);
        if (reason !== undefined) throw (problem = path + " is " + reason);
        if (typeof item === "object" && item !== null) {
          parents[depth] = item;
          paths[depth++] = path;
        }
        return item;
      });
    } catch (error) {
      state = "bad_result";
      value = problem === undefined ? "the result is not JSON: " + show(error) : problem + ", which JSON cannot hold";
    }
  }

  function describe() {
    // Without a prototype: the code may have defined Object.prototype.toJSON.
    const facts = {__proto__: null, state, text: "", stack: "", thrown: "", printed};
    if (state === "raised") {
      const isError = value instanceof lossy.Error;
      facts.text = show(value);
      facts.thrown = isError ? "error" : value === null ? "null" : "value";
      if (isError) try { facts.stack = toText(value.stack); } catch {}
    } else if (state === "bad_result" || state === "parameters") {
      facts.text = value;
    }
    return stringify(facts);
  }

  return (command, names, functions, argument) => {
    if (command === "call") return void assayCall(names, functions, argument);
    return command === "encode" ? encodeResult() : describe();
  };
})()
"""


class JavaScriptError(Exception):
    """The code gave no result. `kind` is one of those of CodeError; `line` is None if it is not known.

    `text` may be long. `hint` belongs behind it.
    """

    def __init__(self, kind: str, text: str, line: int | None = None, printed: str = "", hint: str = "") -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.hint = hint
        self.line = line
        self.printed = printed


def run(
    source: str,
    *,
    entries: Sequence[str],
    argument: Any,
    seconds: float,
    memory_mb: int = MEMORY_MB,
    max_printed: int = 2_000,
) -> str:
    """Call the code's entry function with `argument` and return its value as JSON. Raises JavaScriptError.

    The entry is the function in `module.exports`, else the first of `entries` that the code exports or defines.
    `undefined` becomes null. A promise is awaited.
    """
    start = time.process_time()
    context = _new_context(seconds, memory_mb)
    try:
        bridge = context.eval(_BRIDGE.replace("PRINTED", str(max_printed)))
        names = context.parse_json(json.dumps(list(entries)))
        inputs = context.parse_json(json.dumps(argument))
        try:
            # Only the appended 0 reaches Python: quickjs cannot convert every value that a script may have.
            context.eval(f"{source}\n;0")
        except quickjs.JSException as error:
            facts = json.loads(bridge("describe"))
            raise _script_error(str(error), source, facts["printed"]) from None
        # Not properties of globalThis: `const transform = …` does not become one.
        functions = ", ".join(f"{name}: typeof {name} === 'function' ? {name} : 0" for name in entries)
        bridge("call", names, context.eval(f"({{{functions}}})"), inputs)
        while context.execute_pending_job():
            pass
        text = bridge("encode") if json.loads(bridge("describe"))["state"] == "done" else None
        if isinstance(text, str):
            return text
        raise _call_error(json.loads(bridge("describe")), source, entries)
    except JavaScriptError as error:
        raise _limit(error.text, start, seconds, memory_mb) or error from None
    except quickjs.JSException as error:
        raise _limit(str(error), start, seconds, memory_mb) or _script_error(str(error), source, "") from None


def syntax_error(source: str) -> tuple[int | None, str] | None:
    """Return line and message of the first syntax error, or None. Nothing of the code is executed.

    Errors that only strict mode has are found when the code runs.
    """
    # The whole text is parsed before its first statement runs, and that throws. A first line `#!…` is a comment
    # only at the start of the text.
    source = f"throw 0;{'//' if source.startswith('#!') else ''}{source}"
    try:
        _new_context(_SYNTAX_SECONDS, MEMORY_MB).eval(source)
    except quickjs.JSException as error:
        text = str(error)
        if text.startswith("SyntaxError"):
            problem = _script_error(text, source, "")
            return problem.line, problem.text + problem.hint
        if not text.startswith("0\n"):
            return None, text.partition("\n")[0]
    except ValueError as error:  # a null character, or half of a surrogate pair
        return None, str(error)
    return None


def _new_context(seconds: float, memory_mb: int) -> Any:
    context = quickjs.Context()
    context.set_memory_limit(memory_mb << 20)
    # In seconds of CPU, for each call into the engine. assay's own limit is in seconds of the clock.
    context.set_time_limit(min(seconds, _MAX_SECONDS))
    return context


def _limit(text: str, start: float, seconds: float, memory_mb: int) -> JavaScriptError | None:
    """Return the error of an exceeded limit, or None if the text is that of another error."""
    if "InternalError: interrupted" in text and time.process_time() - start > _MOST_OF * seconds:
        return JavaScriptError("timeout", f"it ran longer than {seconds:g} s and was stopped")
    # Without memory for an error object, QuickJS throws null. So can the code, but it rarely does.
    ambiguous = text.strip() == "null"
    if ambiguous or "InternalError: out of memory" in text:
        note = ", or it threw null" if ambiguous else ""
        return JavaScriptError("memory", f"it needs more than {memory_mb} MB of memory{note}")
    return None


def _script_error(text: str, source: str, printed: str) -> JavaScriptError:
    """Return the error for a JSException: its text is that of the error, followed by the stack."""
    message, _, _ = text.partition("\n    at ")
    # The stack of a value that is not an Error.
    for ending in ("\nundefined", "\nnull"):
        message = message.removesuffix(ending)
    message = " ".join(message.split())
    place = _SYNTAX_PLACE.search(text)
    frame = _FRAME.search(text)
    if message.startswith("SyntaxError: ") and place and not frame:
        line = min(int(place[1]), source.count("\n") + 1)
        reason = message.removeprefix("SyntaxError: ")
        is_module = re.match(r"\s*(import|export)\b", source.split("\n")[line - 1].removeprefix("throw 0;"))
        return JavaScriptError("syntax", f"it is not JavaScript: {reason}", line, hint=_NO_MODULES if is_module else "")
    return JavaScriptError("raised", message, _line(text, source), printed, _hint(message))


def _call_error(facts: dict[str, str], source: str, entries: Sequence[str]) -> JavaScriptError:
    """Return the error for a call without a result, as the bridge describes it."""
    state, text = facts["state"], " ".join(facts["text"].split())
    if state == "no_entry":
        advice = f"assign one to module.exports, or define one of {', '.join(entries)}"
        return JavaScriptError("no_entry", f"it defines no function to call; {advice}")
    if state == "parameters":
        reason = f"{text} has several parameters, but a JavaScript function gets all inputs in one object"
        return JavaScriptError("no_entry", f"{reason}: write {text}({{a, b}}) instead of {text}(a, b)")
    if state == "pending":
        message = "its promise was neither resolved nor rejected; there are no timers or events to wait for"
        return JavaScriptError("raised", message, None, facts["printed"])
    if state == "bad_result":
        return JavaScriptError("bad_result", text)
    if facts["thrown"] == "value":
        return JavaScriptError("raised", f"it threw {text}", None, facts["printed"])
    return JavaScriptError("raised", text, _line(facts["stack"], source), facts["printed"], _hint(text))


def _line(stack: str, source: str) -> int | None:
    """Return the line of the code in the innermost frame, or None."""
    for name, line in _FRAME.findall(stack):
        if name == "assayCall":
            return None
        if int(line) <= source.count("\n") + 1:
            return int(line)
    return None


def _hint(message: str) -> str:
    return _NO_NODE if _MISSING_NAME.match(message) else ""
