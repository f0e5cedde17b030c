"""What a person has chosen, on wires where an answer is the text of a label. Used by the engine sides."""

from polylect.vocab.content import Option
from polylect.vocab.events import Ask


def decides(options: tuple[Option, ...]) -> bool:
    """Whether a person can say both yes and no to a call by these options. Some engines offer only rules."""
    kinds = {option.kind.partition("_")[0] for option in options}
    return kinds == {"allow", "reject"}


def chosen(text: str, ask: Ask) -> str | list[str]:
    """The id of the option with this label, or the person's own text; a list where several can be chosen, whose labels
    are joined by commas."""
    ids = {option.label: option.id for option in ask.options}
    if not ask.multiple:
        return ids.get(text, text)
    return [ids[text]] if text in ids else [ids.get(part, part) for part in text.split(", ")]
