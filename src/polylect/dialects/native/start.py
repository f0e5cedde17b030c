"""Starting as an engine of the native wire: `polylect --native`, with the flags of the program itself.

`dialects/base.py` says what a dialect's `start` has; `app/main.py` and `app/startup/start.py` call it.
"""

import os

from polylect import __version__
from polylect.app.startup.args import Options, parse
from polylect.dialects.jsonstream.versions import OUR_MODES
from polylect.dialects.native.head import first_line
from polylect.sessions import folder

EXIT_CODES = (2, 66, 73, 75, 78)
"""Those of the program itself."""
SEVERAL_SESSIONS = True
FIRST_SESSION = True
new_session_id = folder.new_id


def new_id() -> str:
    from polylect.system.clock_and_ids import new_id  # after `ready`

    return new_id()


def options(words: list[str], program: str, env: dict[str, str]) -> Options:
    """The settings that these words ask for. Raises UsageError, whose text says what would be right."""
    options, _ = parse(words)
    return options


def version(program: str) -> str:
    return f"{program} {__version__}"


def prepare(options: Options) -> None:
    """Nothing more is needed: prompts come as commands."""


def ready(values: Options, session: str) -> bytes:
    """The event `Ready` as a line, with the same fields as that of an engine in the same process."""
    from polylect.app.startup.start import LACKS, capabilities, model_facts  # it calls this function

    thinking, levels, priced = model_facts(values) or (False, (), False)
    extras = {**capabilities(values), "cost_attribution": priced, "lacks": LACKS}
    abilities: Options = {"modes": tuple(dict.fromkeys(OUR_MODES.values())), "extras": extras}
    if thinking:
        abilities["thinking"] = True
    if levels:
        abilities["effort_levels"] = levels
    if values.get("mcp_servers"):
        abilities["mcp"] = True
    fields: Options = {"version": __version__, "model": values.get("model") or "", "abilities": abilities}
    if values["mode"] != "default":
        fields["mode"] = values["mode"]
    return first_line(os.urandom(8).hex(), session, fields)


def codec_options(values: Options, env: dict[str, str], session: str) -> Options:
    return {}


def refusal(message: str, options: Options, session: str, *, ready: bool) -> bytes:
    """An engine that breaks down says so by `failed`; one that cannot start says it only on stderr."""
    if not ready:
        return b""
    from polylect.dialects.little_json import line

    return line(
        {"seq": 0, "type": "failed", "failure": {"code": "internal_error", "message": message, "owner": "engine"}}
    )
