"""What engines that speak json-stream do otherwise than the documents say, told from the shape of their `ready`.

The version in `ready` does not tell it: aionrs and wayland-core send that of their program. aionrs names the mode
`yolo`; wayland-core since 0.12.26 presents a `contract`. An engine that shows neither is taken at the documents' word.
`EventReader` (`decode.py`) finds them out and reads by them, the codec writes by them.
"""

from typing import Any

from msgspec import Struct


class Quirks(Struct, frozen=True):
    """How an engine behaves.

    Attributes:
        version: The version of the wire, whose frames it reads.
        only_words: It drops an approval whose scope is an object.
        forgets_approvals: It asks again for what was allowed for good, or does so in the next process.
        stop_ends_it: After a `stop` it sends nothing more, and its process ends at the end of its input.
        totals_usage: `usage` is the total of the session, and its input includes what was read from the cache.
        forgets_cost: `session_cost` begins at zero in each process, also in a session that is gone on with.
        loses_context: The text of `init_history` never reaches the model, or is forgotten when the session is resumed.
        empty_is_failed: A server that failed is `mcp_ready` without tools.
        confirms_by_pong: It handles commands in order and answers `ping`, so a `pong` means that what was sent before
            the `ping` is done, or was refused by an `info`.
        drops_its_key: After its key was refused, or reached its limit, it asks no model any more.
        counts_failed_requests: Requests that fail use up its budget of tokens, and then it refuses every message of the
            session.
        sets_image_input: `set_config` has the field `image_input`.
    """

    version: str
    only_words: bool = False
    forgets_approvals: bool = False
    stop_ends_it: bool = False
    totals_usage: bool = False
    forgets_cost: bool = False
    loses_context: bool = False
    empty_is_failed: bool = False
    confirms_by_pong: bool = False
    drops_its_key: bool = False
    counts_failed_requests: bool = False
    sets_image_input: bool = False


def quirks_of(ready: dict[str, Any], version: str) -> Quirks:
    """The quirks of the engine that sent this `ready`. `version` is what the caller takes the wire for."""
    capabilities = ready.get("capabilities")
    modes = capabilities.get("modes") if isinstance(capabilities, dict) else None
    if not isinstance(modes, list):
        return Quirks(version)
    newer = isinstance(capabilities, dict) and "image_input" in capabilities  # aionrs since 0.2.5
    if "yolo" in modes and ready.get("version") != "0.1.0":  # an engine of the document; aionrs 0.1.0 names no modes
        return Quirks(
            "0.1.0",
            only_words=True,
            forgets_approvals=True,
            stop_ends_it=True,
            totals_usage=True,
            loses_context=True,
            empty_is_failed=True,
            confirms_by_pong=newer,  # `ping` came with 0.1.15
            sets_image_input=newer,
        )
    if isinstance(ready.get("contract"), dict):
        return Quirks(
            "0.2.0",
            forgets_approvals=True,
            forgets_cost=True,
            loses_context=True,
            confirms_by_pong=True,
            drops_its_key=True,
            counts_failed_requests=True,
        )
    return Quirks("0.2.0" if "force" in modes else version)
