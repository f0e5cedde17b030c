"""The entry point of the program: decides what was started, by the program's name and its flags.

Subcommands are modules of `app/cli/`. `--json-stream` and the wires of other engines go to `app/startup/start.py`. A
host waits for `ready`, so nothing may be imported here that is not needed before it.
"""

import gc
import os
import sys

from polylect import __version__, plug
from polylect.app.startup.args import UsageError, parse

_PROTOCOLS = {"aionrs": "0.1.0", "wayland-core": "0.2.0", "wcore": "0.2.0"}
"""Programs that we stand in for with our own flags, and the protocol that their hosts speak."""
_AIONRS_COMMANDS = {
    "config path": "--config-path",
    "config init": "--init-config",
    "session list": "--list-sessions",
    "skills path": "--skills-path",
    "help": "--help",
}
"""Subcommands of aionrs since 0.2.0, and our flags for the same."""
_INFO_FLAGS = ("config_path", "init_config", "list_sessions", "skills_path")
_OWN_PROGRAMS = ("polylect", "__main__.py", *_PROTOCOLS)
_OWN_WIRES = ("native", "jsonstream")
"""Dialects that the program speaks with its own flags."""
_COMMANDS = (
    *("bridge", "chat", "demo", "doctor", "engines", "link", "login", "logout", "mcp", "models", "run", "sessions"),
)
_OWN_HELP = ("chat", "mcp", "run")
_HELP = """\
polylect: a coding agent for host programs

  polylect --native [flags]        serve a conversation on stdin and stdout, with nothing left out; see docs/native.md
  polylect --json-stream [flags]   the same on the wire of aionrs and wayland-core; see docs/json-stream.md
  polylect --mode rpc [flags]      the same as omp does it, with omp's flags; see docs/omp-rpc.md
  polylect --output-format stream-json --input-format stream-json --verbose [flags]
                                   the same as claude does it, with claude's flags; see docs/claude.md
  polylect --acp [flags]           the same for editors and other clients of the Agent Client Protocol; see docs/acp.md
  polylect acp --listen HOST:PORT  the same for many clients over WebSocket
  polylect run PROMPT [flags]      one task for any engine, for scripts; see polylect run --help
  polylect chat [flags]            a conversation in the terminal with any engine; see polylect chat --help
  polylect engines [--json]        which engines this machine has
  polylect demo [--frames] [--yes] watch it do a small job; needs no key and no network
  polylect doctor [--online] [--json] [flags]
                                   what is configured, found and missing; --online also tries the keys
  polylect models [--json]         which models can be used now, and why others cannot
  polylect mcp [...]               MCP servers: list, test, tools, call, add, remove, login; see docs/mcp.md
  polylect sessions [...]          what is kept: list, show, export, import, fork, repair, delete
  polylect login|logout [PROVIDER] store the key of a model's service for you alone, or remove it
  polylect bridge --front WIRE --engine ENGINE
                                   put an engine behind a host of another one; see polylect bridge --help
  polylect link NAME FOLDER        stand in for aionrs, wayland-core, omp, pi or claude: makes FOLDER/NAME
  polylect --version

Flags
  --protocol 0.2.0|0.1.0           wayland-core's wire (the default) or aionrs'
  --provider NAME  --model NAME    who answers; without, whoever's key is set. 'scripted' needs no key
  --script FILE                    what the scripted provider says
  --base-url URL  --api-key KEY
  --workspace FOLDER               the folder to work in; the current folder if not given
  --add-dir FOLDER                 another folder that tools may touch
  --allow RULE                     what may be done without asking, as 'Bash(git log:*)'; see docs/safety.md
  --deny RULE                      what may never be done, as 'Read(.env)'; see docs/safety.md
  --extension FILE                 a Python file with your own tools or hooks; see docs/extensions.md
  --session-id ID | --resume ID|latest | --no-session
  --approval-mode default|auto_edit|force|plan|dont_ask
  --force                          as --approval-mode force
  --approval-timeout S             how long a question waits; without it, for ever
  --stream-timeout S               how long a model may be silent (300)
  --max-turns N                    model requests in one turn (300)
  --max-tokens N                   tokens of one reply
  --max-budget-usd N               dollars in one turn; refused where the model's price is not known
  --max-budget-tokens N            tokens in one turn, in and out together
  --allow-unpriced                 start all the same: caps in dollars do not hold then
  --cost-updates turn|step         when the host is told what the session has cost (turn)
  --thinking enabled|disabled  --thinking-budget N  --effort LEVEL  --system-prompt TEXT
  --on-eof finish|stop             when stdin ends: finish what was accepted (the default), or stop it
  --max-line BYTES                 the longest line that is read (64 MiB)
  --config FILE                    settings beside the usual ones, see docs/settings.md
  --trust-workspace                trust the project: its settings may also widen rights
  --log-level debug|info|warning|error
  --acp-version 1|2                with --acp: the newest version that clients may ask for (1); 2 is a draft

Flags of acp --listen HOST:PORT; docs/acp.md says what each protects
  --token-file FILE                the token that clients need, for you alone; or set POLYLECT_ACP_TOKEN
  --tls-cert FILE --tls-key FILE   encrypt; then other machines may connect to the address
  --allow-remote                   listen on an address that other machines can reach, without encryption
  --allow-origin ORIGIN            a web page that may connect, as https://editor.example
  --allow-host NAME                a name of this machine that clients may connect to
  --max-connections N              clients at the same time (256)
  --ping-seconds S                 how often a client has to give a sign of life (20)
  --resume-seconds S               how long sessions wait for a client that may come back (60)
"""


def main() -> int:
    try:
        code = _main()
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader has ended, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except KeyboardInterrupt:  # nothing has been started that had to be cleaned up
        return 130


def _main() -> int:
    gc.disable()  # what is imported stays; serving turns the collector on again
    _open_closed_streams()
    name = os.path.basename(sys.argv[0])
    words = ["--acp", *sys.argv[2:]] if sys.argv[1:2] == ["acp"] else sys.argv[1:]
    if words[0:1] == ["--acp"] and "login" in words:  # how a client of ACP lets a person log in
        words = words[words.index("login") :]
    if words and words[0] in _COMMANDS:
        return _command(words)
    if dialect := _dialect(name, words):
        return _stand_in(dialect, name, words)
    return serve(name, words)


def serve(name: str, words: list[str]) -> int:
    """Serves the native wire or json-stream, or answers a flag such as --version. Returns the exit code."""
    try:
        options, rest = parse(_aionrs_words(words) if name == "aionrs" else words)
        if options.get("version"):
            print(f"{name if name in _PROTOCOLS else 'polylect'} {__version__}")
            return 0
        if options.get("help"):
            print(_HELP, end="")
            return 0
        if flag := next((name for name in _INFO_FLAGS if options.get(name)), ""):
            from polylect.app.startup.info_flags import print_answer

            return print_answer(flag, dict(os.environ))
        native = options.pop("native", False)
        if not native and not options.get("json_stream"):
            raise UsageError(_usage_hint(rest))
        if native and options.get("json_stream"):
            raise UsageError("--native and --json-stream exclude each other: name the one wire to speak")
        if rest:
            raise UsageError(f"{rest[0]!r} is not a flag; a prompt is sent as a message on stdin")
        options.setdefault("protocol", _PROTOCOLS.get(name, "0.2.0"))
        options["complete_ready"] = name == "aionrs"
        if native:
            options["dialect"] = "native"
        from polylect.app.startup.start import start
    except UsageError as error:
        _print_error(error)
        return 2
    return start(options)


def _aionrs_words(words: list[str]) -> list[str]:
    """The command line of aionrs with a flag in the place of its subcommand. Raises UsageError for its logins."""
    if words[:1] == ["auth"]:
        raise UsageError("there are no logins of aionrs here: run polylect login, or set a key, as ANTHROPIC_API_KEY")
    flag = _AIONRS_COMMANDS.get(" ".join(words))
    return [flag] if flag else words


def _print_error(error: UsageError, program: str = "polylect") -> None:
    from polylect.app.cli.terminal import print_error  # re: 8 ms, and only for an error

    print_error(error, program)


def _dialect(program: str, words: list[str]) -> str:
    """The dialect that the name of the program or a flag asks for; empty for the two whose flags are our own."""
    if program in _OWN_PROGRAMS and words[:1] in (["--json-stream"], ["--native"]):
        return ""  # the usual starts, without loading the other dialects
    flags = {word.partition("=")[0] for word in words if word.startswith("--")}
    others = [name for name in plug.dialects() if name not in _OWN_WIRES]  # imported one by one, up to the right one
    by_program = (name for name in others if program in plug.load("dialects", name).PROGRAMS)
    by_flag = (name for name in others if flags & set(plug.load("dialects", name).SWITCHES))
    named = "" if program in _OWN_PROGRAMS else next(by_program, "")
    return named or next(by_flag, "")


def _stand_in(dialect: str, program: str, words: list[str]) -> int:
    """Serves the wire of another engine, with its flags; see `DialectStart` in `dialects/base.py`."""
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
        _print_error(error, "error")
        return 1
    return start({**options, "dialect": dialect})


def _usage_hint(words: list[str]) -> str:
    wires = "--native, --json-stream, --mode rpc, --output-format stream-json, --acp"
    usage = f"say what to do: {wires} or one of {', '.join(_COMMANDS)}; see polylect --help"
    if words:
        from polylect.app.startup.nearest_word import hint  # only for an error

        return f"there is no command {words[0]!r}; {hint(words[0], _COMMANDS, usage)}"
    return usage


def _open_closed_streams() -> None:
    """Opens /dev/null for closed standard streams, so that no log or lock file gets their numbers."""
    for descriptor, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)  # gets the lowest free number, which is this one
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115  (open until the process ends)


def _command(words: list[str]) -> int:
    """Runs a subcommand: the module of its name in `app/cli/`."""
    name, rest = words[0], words[1:]
    if name == "logout":
        name, rest = "login", ["--remove", *rest]
    if name == "run":
        return _run(rest)
    if name == "bridge" and not {"--help", "-h"} & set(rest):
        return _bridge(rest)
    from importlib import import_module

    command = import_module(f"polylect.app.cli.{name}")
    if name not in _OWN_HELP and {"--help", "-h"} & set(rest):
        print(command.USAGE)
        return 0
    gc.enable()
    code: int = command.main(rest)
    return code


def _bridge(words: list[str]) -> int:
    from polylect.app.startup.lazy import LazyImports
    from polylect.app.startup.packed import PackedImports

    with PackedImports(), LazyImports():
        from polylect.app.cli.bridge import main as bridge
    gc.enable()
    return bridge(words)


def _run(words: list[str]) -> int:
    from polylect.app.startup.lazy import LazyImports
    from polylect.app.startup.packed import PackedImports

    with PackedImports() as packed:
        with LazyImports():
            from polylect.app.cli.run import main as run
        gc.enable()
        gc.freeze()
        code = run(words)
        packed.wait_until_made()
    if sys.stdout is not None:
        sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # unloading all modules would take another 15 ms
