"""The flags of `polylect run`, their help text and the options that they make.

`run.py` calls `read` once. Flags that every engine understands in its own way (`_ENGINE_OPTIONS`) are passed on to
`connect` unchanged; the rest is handled by `run.py` and `run_task.py`.
"""

from typing import Any

from msgspec import Struct, convert

from polylect.app.cli import engine_choice
from polylect.app.startup.args import UsageError, parse

_ENGINE_OPTIONS = (
    *("provider", "model", "mode", "resume", "session", "script", "base_url", "api_key", "system_prompt"),
    *("max_turns", "config", "extension", "trust_workspace"),
)
_OUTPUTS = ("text", "json", "jsonl")
_FLAGS = {
    **{f"--{name}": ("text", name) for name in ("engine", "dialect", "output", "schema", "cwd")},
    **{f"--{name}": ("list", name) for name in ("allow", "deny", "file")},
    **{f"--{name}": ("amount", name) for name in ("budget", "timeout", "idle")},
    **{f"--{name.replace('_', '-')}": ("text", name) for name in _ENGINE_OPTIONS if name != "session"},
    "--max-turns": ("count", "max_turns"),
    "--session-id": ("text", "session"),
    "--extension": ("list", "extension"),
    "--trust-workspace": ("switch", "trust_workspace"),
    "--yes": ("switch", "yes"),
    "--allow-unpriced": ("switch", "allow_unpriced"),
}
HELP = f"""\
polylect run PROMPT [flags]: give one task to an engine

PROMPT is what is to be done; - reads it from stdin, and after -- it may begin with a dash

  --engine NAME            {engine_choice.HELP}
  --dialect WIRE           {engine_choice.DIALECT_HELP}
  --output text|json|jsonl the answer (the default), the result, or every event
  --schema FILE            a JSON Schema that the answer has to fit
  --allow RULE             what may be done, as 'Bash(git log:*)' or Edit; may be repeated
  --deny RULE              what may not, whatever is allowed; may be repeated
  --yes                    allow everything the engine asks for
  --budget DOLLARS         stop when it has cost more
  --allow-unpriced         go on where the price of the model is not known: --budget does not hold then
  --timeout SECONDS        stop when it takes longer
  --idle SECONDS           stop when the engine has been silent for so long
  --max-turns NUMBER       stop after so many requests to the model
  --file PATH              a file for the model to look at; may be repeated
  --cwd FOLDER             where the work is
  --session-id NAME        the name of the new session, to go on with it later
  --resume NAME|latest     go on with a session
  --provider NAME  --model NAME  --mode NAME  --base-url URL  --api-key KEY  --system-prompt TEXT  --script FILE
                           settings for the engine, as far as it has them
  --config FILE  --extension FILE  --trust-workspace
                           the same, for polylect itself; --extension may be repeated

exit codes: 0 done, 1 failed, 2 usage, 3 something needed approval and nobody was there, 4 budget, time or turn limit,
5 the answer does not fit the schema, 75 try again later, 78 the engine cannot be started, 129 SIGHUP, 130 Ctrl-C,
143 SIGTERM
"""


class RunOptions(Struct):
    """The command line of `polylect run`, parsed."""

    prompt: str = ""
    engine: str = "polylect"
    dialect: str = ""
    output: str = "text"
    schema: str = ""
    allow: list[str] = []
    deny: list[str] = []
    yes: bool = False
    allow_unpriced: bool = False
    budget: float = 0.0
    timeout: float = 0.0
    idle: float = 0.0
    file: list[str] = []
    cwd: str = "."
    engine_options: dict[str, Any] = {}
    """Keyword arguments for `connect`, such as the model."""
    argv: str | list[str] = ""
    """The engine for `connect`: a name of the registry, or the words of a command line."""


def read(words: list[str]) -> RunOptions:
    """Parses the words after `polylect run`. Raises UsageError. argparse is not used: importing it takes 6 ms."""
    options, prompts = parse(words, _FLAGS, {}, usage="polylect run --help")
    if len(prompts) != 1:
        raise UsageError(
            f"give one prompt, in quotes if it has spaces; here are {len(prompts)}. See polylect run --help"
        )
    engine_options = {name: options.pop(name) for name in _ENGINE_OPTIONS if name in options}
    run_options = convert({"prompt": prompts[0], "engine_options": engine_options, **options}, RunOptions)
    if run_options.output not in _OUTPUTS:
        raise UsageError(f"--output {run_options.output}: choose one of {', '.join(_OUTPUTS)}")
    if engine_options.get("max_turns") == 0:
        raise UsageError("--max-turns takes a whole number above zero, not 0")
    return run_options
