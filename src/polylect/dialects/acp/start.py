"""Starting as an agent of ACP: `polylect --acp`, or `polylect acp`, with the flags of the program itself.

Editors begin by `initialize` and open sessions in folders of their choice, so nothing is checked before: a missing key
is told when a session is opened, with the ways to log in. `dialects/base.py` says what a dialect's `start` has.
"""

from polylect import __version__
from polylect.app.startup.args import FLAGS, Options, UsageError, parse
from polylect.dialects.acp.versions import VERSIONS
from polylect.sessions import folder

EXIT_CODES = (2, 78)
"""Those of the program itself."""
SEVERAL_SESSIONS = True
FIRST_SESSION = False
new_id = new_session_id = folder.new_id

LISTEN_FLAGS = {
    "--listen": ("text", "listen"),
    "--allow-remote": ("switch", "allow_remote"),
    "--token-file": ("text", "token_file"),
    "--tls-cert": ("text", "tls_cert"),
    "--tls-key": ("text", "tls_key"),
    "--allow-origin": ("list", "allow_origin"),
    "--allow-host": ("list", "allow_host"),
    "--max-connections": ("count", "max_connections"),
    "--resume-seconds": ("seconds", "resume_seconds"),
    "--ping-seconds": ("seconds", "ping_seconds"),
}
_FLAGS = {**FLAGS, "--acp": ("switch", "acp"), "--acp-version": ("text", "acp_version"), **LISTEN_FLAGS}
_OF_ONE_SESSION = {
    "session_id": "--session-id",
    "resume": "--resume",
    "continue": "--continue",
    "native": "--native",
    "json_stream": "--json-stream",
}
"""Options that make no sense here, because the client says which sessions it opens."""


def options(words: list[str], program: str, env: dict[str, str]) -> Options:
    """The settings that these words ask for. Raises UsageError, whose text says what would be right."""
    options, rest = parse(words, _FLAGS)
    options.pop("acp", None)
    if rest:
        raise UsageError(f"{rest[0]!r} is not a flag; a prompt is sent as a request on stdin")
    for name, flag in _OF_ONE_SESSION.items():
        if name in options:
            raise UsageError(f"{flag} has no meaning with --acp: the client opens sessions by requests")
    if options.get("trust_workspace") and not options.get("workspace"):
        raise UsageError("--trust-workspace: name the folder that is trusted with --workspace FOLDER")
    if options.setdefault("acp_version", VERSIONS[0]) not in VERSIONS:
        raise UsageError(f"--acp-version {options['acp_version']}: choose one of {', '.join(VERSIONS)}")
    _check_listening(options)
    return options


def _check_listening(options: Options) -> None:
    """Completes the address to listen on, as `HOST:PORT`. Raises UsageError."""
    if "listen" not in options:
        if flag := next((flag for flag, (_, name) in LISTEN_FLAGS.items() if name in options), ""):
            raise UsageError(f"{flag} has no meaning without --listen HOST:PORT")
        return
    host, _, port = str(options["listen"]).rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise UsageError(f"--listen {options['listen']!r}: say HOST:PORT, as 127.0.0.1:0; port 0 is any free one")
    host = "127.0.0.1" if host == "localhost" else host
    if options.get("tls_key") and not options.get("tls_cert"):
        raise UsageError("--tls-key has no meaning without --tls-cert FILE")
    if not (options.get("allow_remote") or options.get("tls_cert") or _is_loopback(host)):
        raise UsageError(
            f"--listen {host}: other machines could connect. Whoever has the token then runs commands here as you, and"
            " nothing is encrypted. Name a certificate with --tls-cert and --tls-key, listen on 127.0.0.1 behind ssh -L"
            " or a proxy with TLS, or add --allow-remote"
        )
    options["listen"] = f"{host}:{port}"


def _is_loopback(host: str) -> bool:
    import ipaddress  # only with --listen

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, which can point anywhere
        return False


def version(program: str) -> str:
    return f"{program} {__version__}"


def prepare(options: Options) -> None:
    """Nothing more is needed: prompts come as requests."""


def ready(values: Options, session: str) -> bytes:
    """Nothing: the first line is the answer to `initialize`."""
    return b""


def codec_options(values: Options, env: dict[str, str], session: str) -> Options:
    from polylect.dialects.acp.frames.client import AuthMethod  # the codec has imported it already

    key = "Set ANTHROPIC_API_KEY or OPENAI_API_KEY in the environment of the agent, or run: polylect login"
    return {
        "version": values["acp_version"],
        "agent_version": __version__,
        "auth": (
            AuthMethod(id="api-key", name="API key", description=key),
            AuthMethod(
                id="login",
                name="polylect login",
                description="Asks for the key of a model service, and stores it for you alone",
                type="terminal",
                args=["login"],
            ),
        ),
    }


def refusal(message: str, options: Options, session: str, *, ready: bool) -> bytes:
    """Nothing: what is wrong is said on stderr, and requests that were sent before end with the connection."""
    return b""
