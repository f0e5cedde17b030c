"""Parses command line flags by a table, without argparse: this runs before `ready`, and argparse costs 6 ms.

A row of the table is the flag, the kind of its value and the name of the option that it sets. A flag of the kind
`words` takes all words up to the next flag. `FLAGS` has our own flags, `dialects/*/start.py` those of the programs that
we stand in for, `cli/run_flags.py` those of `polylect run`.
"""

FLAGS: dict[str, tuple[str, str]] = {
    # The wire.
    "--native": ("switch", "native"),
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
    "--max-budget-tokens": ("count", "turn_budget:max_tokens"),
    "--allow-unpriced": ("switch", "budget:allow_unpriced"),
    "--cost-updates": ("text", "cost_updates"),
    "--system-prompt": ("text", "system_prompt"),
    "--thinking": ("text", "thinking"),
    "--thinking-budget": ("count", "thinking_budget"),
    "--effort": ("text", "effort"),
    "--compaction": ("text", "output_cleanup"),
    "--stream-timeout": ("seconds", "stream_timeout"),
    # Rights.
    **dict.fromkeys(("--auto-approve", "--force", "--yolo", "--dangerous"), ("switch", "force")),
    "--dangerously-skip-permissions": ("switch", "force"),
    "--dangerously-skip-permissions-and-sandbox": ("switch", "force"),
    "--dangerous-ttl-secs": ("seconds", "force_seconds"),
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
    "--skills-path": ("switch", "skills_path"),
    "--version": ("switch", "version"),
    "--help": ("switch", "help"),
    # What hosts of wayland-core and aionrs pass.
    "--assistant": ("text", "assistant"),
    "--profile": ("text", "host_profile"),
    "--project-dir": ("text", "workspace"),
    "--api-key-file": ("text", "api_key_file"),
    "--allow-host-path-grants": ("switch", "path_grants"),
    "--allow-host-budget-grants": ("switch", "budget_grants"),
    "--announce-calls": ("switch", "announce_calls"),
    "--build-info": ("switch", "version"),
    # The same, without an effect here: their launchers pass them at every start.
    **dict.fromkeys(("--runtime-engine-mode", "--runtime-workspace-kind"), ("text", "unused")),
    **dict.fromkeys(("--no-tui", "--no-color", "--untrust-workspace"), ("switch", "unused")),
    # Flags of the engines we stand in for that have no meaning here: accepted, with a note on stderr.
    **dict.fromkeys(("--agent", "--log-dir"), ("text", "ignored")),
    **dict.fromkeys(("--max-tool-call-malformed-turns", "--max-tool-call-failure-turns"), ("text", "ignored")),
    **dict.fromkeys(("--login", "--logout", "--toon", "--no-memory"), ("switch", "ignored")),
    **dict.fromkeys(("--search", "--online-evolution", "--allow-host-workspace-grants"), ("switch", "ignored")),
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
    *("--max-budget-usd", "--max-budget-tokens", "--allow-unpriced", "--allow", "--deny"),
    *("--version", "--help"),
)
"""Flags of ours that are accepted whatever program we stand in for."""
Flags = dict[str, tuple[str, str]]
Options = dict[str, object]


def common() -> Flags:
    """The rows of `FLAGS` that `COMMON` names."""
    return {flag: FLAGS[flag] for flag in COMMON}


class UsageError(Exception):
    """The command line is wrong; the text says what would be right."""


def parse(
    words: list[str], flags: Flags = FLAGS, short: dict[str, str] = SHORT, *, usage: str = "polylect --help"
) -> tuple[Options, list[str]]:
    """Returns options by name, and the words that are no flags.

    Accepts `--flag value` and `--flag=value`; `--` ends the flags. `flags` and `short` are tables such as `FLAGS` and
    `SHORT`. `usage` is the command that lists the flags, for error texts. Raises UsageError.
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
        flag, equals, value = word.partition("=")
        flag = short.get(flag, flag)
        if flag not in flags:
            raise UsageError(_unknown_flag(flag, flags, usage))
        kind, name = flags[flag]
        if kind == "switch" and equals:
            raise UsageError(f"{flag} takes no value")
        if equals:
            _set_option(options, flag, kind, name, value)
        elif count := _word_count(flag, kind, words[index:]):
            for word in words[index : index + count]:
                _set_option(options, flag, kind, name, word)
            index += count
        else:
            options[name] = True
        if name == "ignored":
            ignored.append(flag)
    if ignored:
        options["ignored"] = ignored
    return options, rest


def _word_count(flag: str, kind: str, words: list[str]) -> int:
    """How many of the words after a flag belong to it. Raises UsageError if it needs one and there is none."""
    if kind == "switch":
        return 0
    if kind in ("optional", "words"):
        others = [number for number, word in enumerate(words) if word.startswith("-")]
        count = min([*others, len(words)] if kind == "words" else [*others, len(words), 1])
    else:
        count = min(len(words), 1)
    if not count and kind != "optional":
        raise UsageError(f"{flag} needs a value")
    return count


def _set_option(options: Options, flag: str, kind: str, name: str, value: str) -> None:
    if kind in ("list", "words"):
        values = options.get(name)
        options[name] = [*values, value] if isinstance(values, list) else [value]
    else:
        options[name] = _CONVERT[kind](flag, value)


def _text(flag: str, value: str) -> str:
    return value


def _count(flag: str, value: str) -> int:
    if not (value.isascii() and value.isdigit()):
        raise UsageError(f"{flag} takes a whole number, not {value!r}")
    return int(value)


def _seconds(flag: str, value: str) -> float:
    if (seconds := _number(value)) < 0:
        raise UsageError(f"{flag} takes a number of seconds, not {value!r}")
    return seconds


def _amount(flag: str, value: str) -> float:
    if (amount := _number(value)) <= 0:
        raise UsageError(f"{flag} takes an amount above zero, not {value!r}")
    return amount


def _number(text: str) -> float:
    """A number from 0 to a billion; -1 if the text is anything else."""
    try:
        number = float(text)
    except ValueError:
        return -1.0
    return number if 0 <= number < 1e9 else -1.0


_CONVERT = {"text": _text, "optional": _text, "count": _count, "seconds": _seconds, "amount": _amount}


def _unknown_flag(flag: str, flags: Flags, usage: str) -> str:
    from polylect.app.startup.nearest_word import hint  # only for an error

    return f"unknown flag {flag}; {hint(flag, flags, f'see {usage}')}"
