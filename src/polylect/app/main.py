"""The program's first steps. Nothing here may import what `ready` can do without."""

import gc
import os
import sys

from polylect import __version__, plug
from polylect.app.startup.args import UsageError, parse

_STAND_IN = {"aionrs": "0.1.0", "wayland-core": "0.2.0", "wcore": "0.2.0"}
"""Names of programs we stand in for, and the protocol their hosts speak."""
_OWN_PROGRAMS = ("polylect", "__main__.py", *_STAND_IN)
_COMMANDS = ("chat", "demo", "doctor", "engines", "link", "models", "run", "sessions")
_OWN_HELP = ("chat", "run")
_HELP = """\
polylect: a coding agent for host programs

  polylect --json-stream [flags]   serve one conversation on stdin and stdout
  polylect --mode rpc [flags]      the same as omp does it, with omp's flags; see docs/omp-rpc.md
  polylect --output-format stream-json --input-format stream-json --verbose [flags]
                                   the same as claude does it, with claude's flags; see docs/claude.md
  polylect run PROMPT [flags]      one task for any engine, for scripts; see polylect run --help
  polylect chat [flags]            a conversation in the terminal with any engine; see polylect chat --help
  polylect engines [--json]        which engines this machine has
  polylect demo [--frames] [--yes] watch it do a small job; needs no key and no network
  polylect doctor [--online] [--json] [flags]
                                   what is configured, found and missing; --online also tries the keys
  polylect models [--json]         which models can be used now, and what keeps the others from it
  polylect sessions [...]          what is kept: list, show, export, import, fork, repair, delete
  polylect link NAME FOLDER        stand in for aionrs, wayland-core, omp, pi or claude: makes FOLDER/NAME
  polylect --version

Flags
  --protocol 0.2.0|0.1.0           wayland-core's wire (the default) or aionrs'
  --provider NAME  --model NAME    who answers; without, whoever's key is set. 'scripted' needs no key
  --script FILE                    what the scripted provider says
  --base-url URL  --api-key KEY
  --workspace FOLDER               where the work is; the current folder if not given
  --add-dir FOLDER                 another folder that tools may touch
  --allow RULE                     what may be done unasked, as 'Bash(git log:*)'; see docs/safety.md
  --deny RULE                      what may never be done, as 'Read(.env)'; see docs/safety.md
  --extension FILE                 a Python file of yours that takes part; see docs/extensions.md
  --session-id ID | --resume ID|latest | --no-session
  --approval-mode default|auto_edit|force|plan|dont_ask
  --force                          as --approval-mode force
  --approval-timeout S             how long a question waits; without it, for ever
  --stream-timeout S               how long a model may be silent (300)
  --max-turns N                    model requests in one turn (300)
  --max-tokens N                   tokens of one reply
  --max-budget-usd N               dollars in one turn; refused where the model's price is not known
  --cost-updates turn|step         when the host is told what the session has cost (turn)
  --thinking enabled|disabled  --thinking-budget N  --effort LEVEL  --system-prompt TEXT
  --on-eof finish|stop             when stdin ends: finish what was accepted (the default), or stop it
  --max-line BYTES                 the longest line that is read (64 MiB)
  --config FILE                    settings beside the usual ones, see docs/settings.md
  --trust-workspace                take from the project's own settings also what widens rights
  --log-level debug|info|warning|error
"""


def main() -> int:
    try:
        code = _main()
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except KeyboardInterrupt:  # so early that nothing has to be cleaned up
        return 130


def _main() -> int:
    gc.disable()  # nothing imported from here on is garbage; serving turns it on again
    _fill_gaps()
    name = os.path.basename(sys.argv[0])
    words = sys.argv[1:]
    if words and words[0] in _COMMANDS:
        if words[0] not in _OWN_HELP and {"--help", "-h"} & set(words[1:]):
            print(_help_of(words[0]))
            return 0
        return _command(words)
    if dialect := _dialect(name, words):
        return _stand_in(dialect, name, words)
    return serve(name, words)


def serve(name: str, words: list[str]) -> int:
    """Our own wire, and what our own flags ask for besides."""
    try:
        options, rest = parse(words)
        if options.get("version"):
            print(f"{name if name in _STAND_IN else 'polylect'} {__version__}")
            return 0
        if options.get("help"):
            print(_HELP, end="")
            return 0
        if told := next((name for name in ("config_path", "init_config", "list_sessions") if options.get(name)), ""):
            from polylect.app.startup.quick_answers import tell

            return tell(told, dict(os.environ))
        if not options.get("json_stream"):
            raise UsageError(_what_to_do(rest))
        if rest:
            raise UsageError(f"{rest[0]!r} is not a flag; a prompt is sent as a message on stdin")
        options.setdefault("protocol", _STAND_IN.get(name, "0.2.0"))
        from polylect.app.startup.start import start
    except UsageError as error:
        _complain(error)
        return 2
    return start(options)


def _complain(error: UsageError, program: str = "polylect") -> None:
    from polylect.app.cli.terminal import print_error  # re: 8 ms, and only for an error

    print_error(error, program)


def _dialect(program: str, words: list[str]) -> str:
    """The dialect that the name of the program or a flag asks for; empty for json-stream, whose flags are our own."""
    if program in _OWN_PROGRAMS and words[:1] == ["--json-stream"]:
        return ""  # the usual start: other dialects need not be looked at
    flags = {word.partition("=")[0] for word in words if word.startswith("--")}
    others = [name for name in plug.dialects() if name != "jsonstream"]  # imported one by one, up to the right one
    by_program = (name for name in others if program in plug.load("dialects", name).PROGRAMS)
    by_flag = (name for name in others if flags & set(plug.load("dialects", name).SWITCHES))
    named = "" if program in _OWN_PROGRAMS else next(by_program, "")
    return named or next(by_flag, "")


def _stand_in(dialect: str, program: str, words: list[str]) -> int:
    """The wire and the flags of another engine; `DialectStart` in `dialects/base.py` says what they are made of."""
    from polylect.app.startup.start import start

    wire = plug.load(f"dialects.{dialect}", "start")
    try:
        options = wire.options(words, program, dict(os.environ))
        if options.get("version"):
            print(wire.version(program))
            return 0
        if options.get("help"):
            print(_HELP, end="")
            return 0
        wire.prepare(options)
    except UsageError as error:
        _complain(error, "error")
        return 1
    return start({**options, "dialect": dialect})


def _help_of(command: str) -> str:
    from importlib import import_module

    usage: str = import_module(f"polylect.app.cli.{command}").USAGE
    return usage


def _what_to_do(words: list[str]) -> str:
    wires = "--json-stream, --mode rpc, --output-format stream-json"
    said = f"say what to do: {wires} or one of {', '.join(_COMMANDS)}; see polylect --help"
    if words:
        from polylect.app.startup.nearest_word import hint  # only for an error

        return f"there is no command {words[0]!r}; {hint(words[0], _COMMANDS, said)}"
    return said


def _fill_gaps() -> None:
    """A standard stream that is closed would be taken by the next file we open: a log, a lock. Stdout stays useless."""
    for descriptor, how in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, how)  # the lowest free number, which is this one
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115  (for as long as we live)


def _command(words: list[str]) -> int:
    match words[0]:
        case "demo":
            from polylect.app.cli.demo import main as run
        case "doctor":
            from polylect.app.cli.doctor import main as run
        case "chat":
            from polylect.app.cli.chat import main as run
        case "engines":
            from polylect.app.cli.engines import main as run
        case "run":
            return _run(words[1:])
        case "models":
            from polylect.app.cli.models import main as run
        case "sessions":
            from polylect.app.cli.sessions import main as run
        case _:
            from polylect.app.cli.link import main as run
    gc.enable()
    return run(words[1:])


def _run(words: list[str]) -> int:
    from polylect.app.startup.lazy import LazyImports
    from polylect.app.startup.packed import PackedImports

    with PackedImports() as packed:
        with LazyImports():
            from polylect.app.cli.run import main as run
        gc.enable()
        gc.freeze()
        code = run(words)
        packed.made()
    if sys.stdout is not None:
        sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # taking all modules down one by one would take another 15 ms
