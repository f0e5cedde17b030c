"""All frames of the wire by direction and name: the `type`, or `system/` and the subtype.

`dialect` publishes it, and the JSON schemas in `schemas/` are generated from it. The codecs have tables of their own.
"""

from typing import get_args

from msgspec import Struct

from polylect.dialects.claude.frames import control, notices
from polylect.dialects.claude.frames import turn as shapes
from polylect.dialects.schema import by_name, defined_in

_NOTICES = defined_in(notices, shapes.SessionFrame)
_SYSTEM: list[type[shapes.SessionFrame]] = [
    shapes.Init,
    *(shape for shape in _NOTICES if "subtype" in shape.__annotations__),
]


def _subtype(shape: type[Struct]) -> str:
    return str(get_args(shape.__annotations__["subtype"])[0])


EVENTS: dict[str, type[Struct]] = {
    **by_name(shapes.Assistant, shapes.User, shapes.Result, shapes.StreamEvent),
    **{f"system/{_subtype(shape)}": shape for shape in _SYSTEM},
    **by_name(control.ControlRequest, control.ControlResponse, control.ControlCancel),
    **by_name(*(shape for shape in _NOTICES if shape not in _SYSTEM)),
    **by_name(shapes.KeepAlive),
}
COMMANDS: dict[str, type[Struct]] = by_name(
    shapes.Prompt, control.ControlRequest, control.ControlResponse, shapes.KeepAlive, shapes.Environment
)
