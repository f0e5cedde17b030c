"""Reads the fields between two `---` lines at the top of a Markdown file: personas, skills, slash commands.

Only the part of YAML that such files use is supported: strings, folded strings and lists of strings. Nothing raises;
a line that is no field is ignored.

    "---\nname: x\ntools: [Read, Bash]\n---\nText"  ->  ({"name": "x", "tools": "[Read, Bash]"}, "Text")
"""

from polylect.wire.lazy_regex import pattern

_KEY = pattern(r"([A-Za-z][\w-]*):(?:[ \t]+(.*))?$")
_FOLDED = (">", "|", ">-", "|-", ">+", "|+")


def split_front(text: str) -> tuple[dict[str, str], str]:
    """The fields, and the text after them. The items of a list are joined by commas."""
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != "---":
        return {}, text
    end = next((at for at in range(1, len(lines)) if lines[at].rstrip() == "---"), len(lines))
    fields: dict[str, str] = {}
    key = ""
    for line in lines[1:end]:
        if match := _KEY.match(line):
            key, value = match[1], (match[2] or "").strip()
            fields[key] = "" if value in _FOLDED else _unquoted(value)
        elif key and line.lstrip().startswith("- "):
            fields[key] = ", ".join(filter(None, (fields[key], _unquoted(line.strip()[2:].strip()))))
        elif key and line[:1] in (" ", "\t"):
            fields[key] = f"{fields[key]} {line.strip()}".strip()
    return fields, "\n".join(lines[end + 1 :]).strip()


def listed(value: str) -> tuple[str, ...]:
    """The names in a field: separated by commas, with or without brackets and quotes."""
    value = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    names = (_unquoted(name.strip()) for name in value.split(","))
    return tuple(name for name in names if name)


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value
