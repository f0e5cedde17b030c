"""Command line flags as a table, read without argparse: this runs before `ready`, and argparse costs 6 ms."""

FLAGS: dict[str, tuple[str, str]] = {
    # The wire.
    "--json-stream": ("switch", "json_stream"),
    "--protocol": ("text", "protocol"),
    # The model.
    "--provider": ("text", "provider"),
    "--model": ("text", "model"),
    "--api-key": ("text", "api_key"),
    "--base-url": ("text", "base_url"),
    "--script": ("text", "script"),
    "--max-tokens": ("count", "max_tokens"),
    "--max-turns": ("count", "max_turns"),
    "--max-budget-usd": ("amount", "turn_budget:max_cost_usd"),
    "--cost-updates": ("text", "cost_updates"),
    "--system-prompt": ("text", "system_prompt"),
    "--thinking": ("text", "thinking"),
    "--thinking-budget": ("count", "thinking_budget"),
    "--effort": ("text", "effort"),
    "--compaction": ("text", "output_cleanup"),
    "--stream-timeout": ("seconds", "stream_timeout"),
    # Rights.
    "--auto-approve": ("switch", "force"),
    "--force": ("switch", "force"),
    "--yolo": ("switch", "force"),
    "--dangerously-skip-permissions": ("switch", "force"),
    "--dangerously-skip-permissions-and-sandbox": ("switch", "force"),
    "--dangerous": ("switch", "force"),
    "--approval-mode": ("text", "approval_mode"),
    "--approval-timeout": ("seconds", "approval_timeout"),
    "--trust-workspace": ("switch", "trust_workspace"),
    "--allow": ("list", "allow"),
    "--deny": ("list", "deny"),
    "--add-dir": ("list", "folders"),
    "--extension": ("list", "extensions"),
    # The session and the workspace.
    "--session-id": ("text", "session_id"),
    "--resume": ("text", "resume"),
    "--continue": ("switch", "continue"),
    "--no-session": ("switch", "no_session"),
    "--workspace": ("text", "workspace"),
    # The process.
    "--config": ("text", "config"),
    "--on-eof": ("text", "on_eof"),
    "--max-line": ("count", "max_line"),
    "--log-level": ("text", "log_level"),
    "--config-path": ("switch", "config_path"),
    "--init-config": ("switch", "init_config"),
    "--list-sessions": ("switch", "list_sessions"),
    "--version": ("switch", "version"),
    "--help": ("switch", "help"),
    # Flags of the engines we stand in for, which mean nothing here: accepted and noted.
    "--profile": ("text", "ignored"),
    "--agent": ("text", "ignored"),
    "--assistant": ("text", "ignored"),
    "--project-dir": ("text", "ignored"),
    "--max-tool-call-malformed-turns": ("text", "ignored"),
    "--max-tool-call-failure-turns": ("text", "ignored"),
    "--log-dir": ("text", "ignored"),
    "--login": ("switch", "ignored"),
    "--logout": ("switch", "ignored"),
    "--toon": ("switch", "ignored"),
    "--no-color": ("switch", "ignored"),
    "--no-memory": ("switch", "ignored"),
    "--search": ("switch", "ignored"),
    "--online-evolution": ("switch", "ignored"),
    "--allow-host-workspace-grants": ("switch", "ignored"),
    "--allow-host-path-grants": ("switch", "ignored"),
    "--allow-host-budget-grants": ("switch", "ignored"),
}
SHORT = {
    "-p": "--provider",
    "-m": "--model",
    "-k": "--api-key",
    "-b": "--base-url",
    "-c": "--continue",
    "-h": "--help",
    "-V": "--version",
}

COMMON = (
    *("--script", "--base-url", "--api-key", "--config", "--workspace", "--stream-timeout", "--approval-timeout"),
    *("--on-eof", "--max-line", "--max-tokens", "--max-turns", "--trust-workspace", "--log-level"),
    *("--max-budget-usd", "--allow", "--deny"),
    *("--version", "--help"),
)
"""Ours, whatever program we stand in for."""
Flags = dict[str, tuple[str, str]]
Options = dict[str, object]


def common() -> Flags:
    return {flag: FLAGS[flag] for flag in COMMON}


class UsageError(Exception):
    """The command line makes no sense; the text says what would."""


def parse(
    words: list[str], flags: Flags = FLAGS, short: dict[str, str] = SHORT, *, usage: str = "polylect --help"
) -> tuple[Options, list[str]]:
    """Options by name, and the words that are none. Both `--flag value` and `--flag=value` are read, up to `--`.

    `usage` is the command that lists these flags. Raises UsageError.
    """
    options: Options = {}
    rest: list[str] = []
    ignored: list[str] = []
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word == "--":
            rest += words[index:]
            break
        if not word.startswith("-") or word == "-":
            rest.append(word)
            continue
        flag, given, value = word.partition("=")
        flag = short.get(flag, flag)
        if flag not in flags:
            raise UsageError(_unknown(flag, flags, usage))
        kind, name = flags[flag]
        if kind == "switch":
            if given:
                raise UsageError(f"{flag} takes no value")
            options[name] = True
        elif kind == "optional" and not given and (index == len(words) or words[index].startswith("-")):
            options[name] = True
        else:
            if not given:
                if index == len(words):
                    raise UsageError(f"{flag} needs a value")
                value = words[index]
                index += 1
            _put(options, flag, kind, name, value)
        if name == "ignored":
            ignored.append(flag)
    if ignored:
        options["ignored"] = ignored
    return options, rest


def _put(options: Options, flag: str, kind: str, name: str, value: str) -> None:
    if kind == "list":
        before = options.get(name)
        options[name] = [*before, value] if isinstance(before, list) else [value]
    else:
        options[name] = _CONVERT[kind](flag, value)


def _text(flag: str, value: str) -> str:
    return value


def _count(flag: str, value: str) -> int:
    if not (value.isascii() and value.isdigit()):
        raise UsageError(f"{flag} takes a whole number, not {value!r}")
    return int(value)


def _seconds(flag: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise UsageError(f"{flag} takes a number of seconds, not {value!r}")
    return seconds


def _amount(flag: str, value: str) -> float:
    try:
        amount = float(value)
    except ValueError:
        amount = -1.0
    if not 0 < amount < 1e9:
        raise UsageError(f"{flag} takes an amount above zero, not {value!r}")
    return amount


_CONVERT = {"text": _text, "optional": _text, "count": _count, "seconds": _seconds, "amount": _amount}


def _unknown(flag: str, flags: Flags, usage: str) -> str:
    from polylect.app.startup.nearest_word import hint  # only for an error

    return f"unknown flag {flag}; {hint(flag, flags, f'see {usage}')}"
