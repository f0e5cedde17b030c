"""Finds the new blocks in an `assistant` frame, so that each content block is handed out exactly once.

Engines repeat themselves in three ways. A frame holds all blocks of the message so far, or only the block that has
just been completed, or blocks that were streamed before. Example, with snapshots:

    assistant [A]      -> A
    assistant [A, B]   -> B

A message is known by its id. Some engines send none; then it is known by the fingerprint of its first block, and a new
fingerprint is a new message: of the same agent, or of another one whose frames lack `parent_tool_use_id` too.
`decode` is the caller; `partial_messages` reports what was streamed.
"""

from itertools import takewhile

from msgspec import Struct, field

from polylect.dialects.lenient import Object, objects, text

Mark = tuple[str, str]
"""The kind of a block and what identifies it: the id of a call, or the whole text."""

_CALLS = ("tool_use", "server_tool_use")
_TEXT_FIELDS = {"text": "text", "thinking": "thinking"}
_FINGERPRINT_LENGTH = 64


class _SeenBlocks(Struct):
    """The blocks of one agent that were handed out."""

    named: dict[str, list[Mark]] = field(default_factory=dict)
    unnamed: dict[str, list[list[Mark]]] = field(default_factory=dict)
    """By fingerprint. Two agents may begin with the same text."""
    last: str = ""
    shown: dict[str, list[Mark]] = field(default_factory=dict)
    """By message: blocks that were streamed and have not come as a whole yet."""


class Deduplicator:
    def __init__(self) -> None:
        self._agents: dict[str, _SeenBlocks] = {}
        self._single = False
        """Whether a frame has shown that this engine sends blocks one by one."""

    def new_blocks(self, message: Object, agent: str = "", *, numbered: bool = False) -> list[Object]:
        """The blocks of a message that have not been handed out.

        message    the `message` of an `assistant` frame
        agent      whose frame it is
        numbered   the frame has a uuid, so it cannot be a repetition of the one before
        """
        blocks = [block for block in objects(message, "content") if text(block, "type")]
        if not blocks:
            return []
        earlier, id = self._agents.setdefault(agent, _SeenBlocks()), text(message, "id")
        if id:
            fresh = self._of_message(earlier.named.setdefault(id, []), blocks, numbered=numbered)
        else:
            fresh = _of_context(earlier, blocks)
        shown = earlier.shown.get(id, [])
        return [block for block in fresh if not _remove(shown, mark(block))]

    def streamed(self, id: str, kind: str, whole: str, agent: str = "") -> None:
        """This block was handed out as deltas and has ended: when it comes as a whole, it is not new."""
        self._agents.setdefault(agent, _SeenBlocks()).shown.setdefault(id, []).append((kind, whole))

    def reset(self, agent: str = "") -> None:
        self._agents.pop(agent, None)

    def _of_message(self, earlier: list[Mark], blocks: list[Object], *, numbered: bool) -> list[Object]:
        marks = [mark(block) for block in blocks]
        if marks[: len(earlier)] == earlier:
            again = bool(earlier) and len(marks) == len(earlier)
            if again and self._single and numbered:
                return blocks  # the model has said the same thing twice
            self._single = self._single and (not earlier or again)
            fresh = blocks[len(earlier) :]
            earlier[:] = marks
        elif not self._single and (rest := _grown(earlier, blocks)):
            fresh = rest
            earlier[:] = marks
        else:
            self._single = True
            fresh = [block for block in blocks if not _repeated(mark(block), earlier, numbered=numbered)]
            earlier += [mark(block) for block in fresh]
        return fresh


def _of_context(blocks_seen: _SeenBlocks, blocks: list[Object]) -> list[Object]:
    key, marks = fingerprint(blocks[0]), [mark(block) for block in blocks]
    switched, blocks_seen.last = blocks_seen.last != key, key
    replies = blocks_seen.unnamed.setdefault(key, [])
    earlier = max((earlier for earlier in replies if marks[: len(earlier)] == earlier), key=len, default=None)
    if earlier is not None:
        # Unchanged and after somebody else has spoken, it is not a repetition but a new reply like the old one.
        fresh = blocks if switched and marks == earlier else blocks[len(earlier) :]
        earlier[:] = marks
        return fresh
    for earlier in replies:
        if rest := _grown(earlier, blocks):
            earlier[:] = marks
            return rest
    common = max((_common(earlier, marks) for earlier in replies), default=0)
    replies.append(marks)
    return blocks if common == len(marks) else blocks[common:]


def _grown(earlier: list[Mark], blocks: list[Object]) -> list[Object]:
    """If the last known block has grown in this snapshot: the rest of it, and the blocks after it."""
    last = len(earlier) - 1
    if last < 0 or len(blocks) < len(earlier) or [mark(block) for block in blocks[:last]] != earlier[:last]:
        return []
    (kind, before), (same, now) = earlier[last], mark(blocks[last])
    if kind != same or kind not in _TEXT_FIELDS or not before or not now.startswith(before):
        return []
    return [{**blocks[last], _TEXT_FIELDS[kind]: now[len(before) :]}, *blocks[last + 1 :]]


def _repeated(block: Mark, earlier: list[Mark], *, numbered: bool) -> bool:
    if block[0] in _CALLS:
        return block in earlier
    return not numbered and block == earlier[-1]


def _common(earlier: list[Mark], marks: list[Mark]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(earlier, marks, strict=False)))


def _remove(shown: list[Mark], block: Mark) -> bool:
    if block in shown:
        shown.remove(block)
        return True
    return False


def mark(block: Object) -> Mark:
    kind = text(block, "type")
    if kind in _CALLS:
        return kind, text(block, "id")
    if kind in _TEXT_FIELDS:
        return kind, text(block, _TEXT_FIELDS[kind]) or text(block, "text")
    return kind, text(block, "tool_use_id") or text(block, "data")


def fingerprint(block: Object) -> str:
    """Identifies a message without an id: the id of a call, or the beginning of its first text."""
    kind, what = mark(block)
    return f"{kind}:{what if kind in _CALLS else what[:_FINGERPRINT_LENGTH] or 'unknown'}"
