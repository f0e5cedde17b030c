"""One program, every engine: through the host SDK it hears the same events, in the same order.

Ours in all its dialects, the real claude, omp and pi, seven agents of ACP, and the scripted peers of aionrs and
wayland-core, each against the same model on loopback. What our engine says in this process is the vocabulary itself;
each engine is held to that, less what its dialect lists as unsaid. What is left is in DIFFERENCES, with the reason, or
the test fails; so it does if a difference is no more.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from interop.acp_agents import AGENTS, age_sessions
from interop.acp_agents import Agent as AcpAgent
from interop.acp_model import Model
from interop.claude_model import REFUSE, WAIT, Step, text
from interop.script_engines import ENGINES, Engine, Reference
from polylect.host import Agent, Ask, Event
from polylect.vocab import events as e
from polylect.vocab.grammar.complete import Completer

pytestmark = pytest.mark.interop
PATIENCE = 60.0
SLOW = "One moment"
PROGRESS = (e.Alive, e.ToolOutput)
"""How often it is told, if at all, is a matter of pace."""

DELTAS = (e.TextDelta, e.ThinkingDelta, e.ArgsDelta)

Conversation = dict[str, list[str]]
"""What was heard, by chapter: an event is its type and what counts of it."""


class Difference(NamedTuple):
    """An event that is missing (-), not in the reference (+), or in another place (~), there `always` or at times."""

    engines: tuple[str, ...]
    chapters: tuple[str, ...]
    event: str
    why: str
    always: bool = True

    def explains(self, chapter: str, actual: str) -> bool:
        return chapter in (self.chapters or (chapter,)) and is_a(self.event, actual)


JSON_STREAM = ("polylect json-stream", "polylect json-stream 0.1.0", "aionrs", "wayland-core")
OMP_18 = ("omp 18", "omp 18.3")
ASKING = ("omp 18, asking", "omp 18.3, asking")
UNASKED = ("omp 13", *OMP_18, "pi", "pi 0.87", "pi 1.5")
OMP = ("polylect omp", "polylect omp 13", "polylect pi", *UNASKED, *ASKING)
CALLS = ("tool", "deny")
IN_PLACE_OF_AN_ASK = "it has no approval, or is started without: what the model wants is done"
CMD = "the argument of its tool is called cmd"
TOTALS = "it tells the total of the session, and what was used before is not known"
OUR_ACP = ("polylect acp", "polylect acp 2")
ACP = (*OUR_ACP, *AGENTS)
PACE = "context and cost are one update, which comes when the agent likes, or never"
NO_STEP = (*OUR_ACP, "gemini", "goose", "kimi", "opencode", "qwen")
BEFORE_A_WORD = "a request that fails before a word is told by nothing but the error"
AS_TEXT = ("claude-acp", "codex-acp")
SHOWN = "it shows the refusal as a text of the model"
LOGIN = ("claude-acp", "goose", "kimi")
OTHER_ARGUMENTS = ("codex-acp", "gemini", "goose", "opencode", "qwen")
ARGUMENTS = "its tool takes others, or it does not tell them"
STOPS = ("codex-acp", "opencode", "qwen")
STOPPED = "a call that is denied ends the turn"
LAST = "it tells only what its last request took"
DIFFERENCES = [
    Difference(JSON_STREAM, CALLS, "~ReplyEnded", "nothing marks it, and after a call another may be told of"),
    Difference(
        ("polylect", "polylect json-stream"),
        (),
        "+CostChanged",
        "costs are told after each request, so that caps hold",
        always=False,
    ),
    Difference(("claude",), CALLS, "~ReplyEnded", "it may ask while the model still talks", always=False),
    Difference(("claude-acp",), CALLS, "~Ask", "it may ask while the model still talks", always=False),
    Difference(("claude",), ("resume",), "+CostChanged", "it is asked what the session had cost", always=False),
    Difference(OMP, CALLS, "+BlockEnded ToolCall", "the arguments of a call have an end of their own"),
    Difference(("polylect",), ("settings",), "+SettingChanged", "its folder, tools, agents and commands are told"),
    Difference(("polylect omp",), ("settings",), "+SettingChanged", "how much it thinks is part of the state it tells"),
    Difference(
        ("polylect claude", "claude"), ("settings",), "+SettingChanged", "each turn begins with all that is set"
    ),
    Difference((*OMP_18, *ASKING), ("settings",), "+SettingChanged", "its commands are announced"),
    Difference(("omp 13", *OMP_18, *ASKING), (), "+Display", "an extension of its own shows a widget"),
    Difference(("aionrs",), CALLS, "-ToolCalled", CMD),
    Difference(("aionrs",), CALLS, "+ToolCalled", CMD),
    Difference(("aionrs",), ("resume",), "-TurnEnded", TOTALS),
    Difference(("aionrs",), ("resume",), "+TurnEnded end 0 in,", TOTALS),
    Difference(("wayland-core",), (), "+Notice", "it says that the model has no price, and what becomes of a session"),
    Difference(("wayland-core",), (), "+Extra", "what it can do is told right after its start", always=False),
    Difference(
        ("wayland-core",), ("cancel", "error"), "-CostChanged", "it tells no cost of a turn that did not end well"
    ),
    Difference(("wayland-core",), ("settings",), "+SettingChanged", "its policies are settings"),
    Difference(UNASKED, CALLS, "-Ask", IN_PLACE_OF_AN_ASK),
    Difference(UNASKED, CALLS, "-AskClosed", IN_PLACE_OF_AN_ASK),
    Difference(UNASKED, ("deny",), "+ToolStarted", IN_PLACE_OF_AN_ASK),
    Difference(UNASKED, ("deny",), "-ToolFinished denied", IN_PLACE_OF_AN_ASK),
    Difference(UNASKED, ("deny",), "+ToolFinished ok", IN_PLACE_OF_AN_ASK),
    Difference(UNASKED, ("deny",), "+file", IN_PLACE_OF_AN_ASK),
    *(
        Difference(ACP, (), f"{how}{event}", PACE, always=False)
        for how in "+-"
        for event in ("ContextUsed", "CostChanged")
    ),
    Difference(ACP, CALLS, "-ReplyEnded calls", "nothing marks it, and after a call another may be told of"),
    Difference(ACP, CALLS, "+ReplyEnded calls", "so it ends with the calls"),
    Difference(ACP, ("settings",), "+SettingChanged", "commands and the title are told"),
    *(Difference(NO_STEP, ("error",), event, BEFORE_A_WORD) for event in ("-StepStarted", "-ReplyEnded", "-StepEnded")),
    *(Difference(AS_TEXT, ("error",), event, SHOWN) for event in ("+TextDelta", "+BlockEnded")),
    Difference((*LOGIN, "qwen"), ("error",), "-TurnEnded error provider", "whose fault it is, it tells so:"),
    Difference(LOGIN, ("error",), "+TurnEnded error user", "the user has to log in"),
    Difference(("qwen",), ("error",), "+TurnEnded error engine", "an error inside, with the reason as a text"),
    Difference(OTHER_ARGUMENTS, CALLS, "-ToolCalled", ARGUMENTS),
    Difference(OTHER_ARGUMENTS, CALLS, "+ToolCalled", ARGUMENTS),
    *(
        Difference(STOPS, ("deny",), event, STOPPED)
        for event in ("-StepStarted", "-TextDelta", "-BlockEnded", "-ReplyEnded end", "-StepEnded", "-TurnEnded end")
    ),
    Difference(("codex-acp",), ("deny",), "+TurnEnded cancelled", STOPPED),
    Difference(("opencode", "qwen"), ("deny",), "+TurnEnded end", STOPPED),
    Difference(("goose", "opencode"), CALLS, "-TurnEnded end 20 in,", LAST),
    Difference(("goose", "opencode"), CALLS, "+TurnEnded end 10 in,", LAST),
    Difference(("kimi",), (), "-TurnEnded end", "it does not tell what a turn took"),
    Difference(("kimi",), (), "+TurnEnded end 0 in,", "it does not tell what a turn took"),
]


# The program.


def script(engine: Engine | AcpAgent | Reference) -> dict[str, list[Step]]:
    run = engine.call("call_1", "echo made > made.txt", "makes a file")
    again = engine.call("call_2", "echo made > denied.txt", "makes another")
    return {
        "HELLO": [[text("Hello to you.")]],
        "MAKE": [[text("I will."), run], [text("It is made.")]],
        "DENY": [[again], [text("Then not.")]],
        "SLOW": [[text(SLOW), WAIT]],
        "REFUSE": [REFUSE],
        "AGAIN": [[text("Here again.")]],
    }


async def converse(engine: Engine | AcpAgent | Reference, place: Path) -> Conversation:
    async with Model(script(engine)) as model:
        async with engine.connect(model, place) as agent:
            result = {
                "text": words(await listen(agent, "HELLO")),
                "tool": words(await listen(agent, "MAKE", answer=Ask.allow)) + files(place, "made.txt"),
                "deny": words(await listen(agent, "DENY", answer=no)) + files(place, "denied.txt"),
                "cancel": words(await listen(agent, "SLOW", then=agent.cancel)),
                "second turn": words(await listen(agent, "AGAIN")),
                "error": words(await listen(agent, "REFUSE")),
                "after": await to_rest(agent, "AGAIN"),
                "settings": sorted(f"SettingChanged {key}" for key, value in agent.settings.items() if value),
            }
            session, before = await engine.session(agent), len(model.asked)
        age_sessions(place)
        async with engine.connect(model, place, resume=session) as agent:
            result["resume"] = words(await listen(agent, "AGAIN"))
            assert any("HELLO" in str(requested["messages"]) for requested in model.asked[before:]), "it remembers"
            result["killed"] = words(await killed(agent))
    return result


async def listen(
    agent: Agent,
    prompt: str,
    *,
    answer: Callable[[Ask], Awaitable[None]] | None = None,
    then: Callable[[], Awaitable[None]] | None = None,
) -> list[Event]:
    """A turn: its asks are answered, and `then` follows when the model has said all that it says before it waits."""
    received: list[Event] = []
    async for event in agent.prompt(prompt):
        received.append(event)
        if answer and isinstance(event, Ask):
            await answer(event)
        if then and isinstance(event, e.TextDelta) and said(received) == SLOW:
            await then()
    return received


async def to_rest(agent: Agent, prompt: str) -> list[str]:
    """A turn, and that nothing runs any more, which is said in its own time."""
    rest = asyncio.create_task(settled(agent))
    return [*words(await listen(agent, prompt)), await asyncio.wait_for(rest, PATIENCE)]


async def settled(agent: Agent) -> str:
    over = False
    async for event in agent.events():
        over = over or isinstance(event, e.TurnEnded)
        if over and isinstance(event, e.Settled):
            return "Settled"
    return "gone"


def said(received: list[Event]) -> str:
    return "".join(event.text for event in received if isinstance(event, e.TextDelta))


async def no(ask: Ask) -> None:
    await ask.deny("not this one")


async def killed(agent: Agent) -> list[Event]:
    """In the middle of a turn. In this process nobody can be killed: then it is how the vocabulary ends such a turn."""
    if agent.pid != os.getpid():
        received = await listen(agent, "SLOW", then=partial(kill, agent.pid))
        assert await agent.close() == -signal.SIGKILL
        return received
    received = await listen(agent, "SLOW", then=agent.cancel)
    completer = Completer()
    last = max(place for place, event in enumerate(received) if isinstance(event, e.TextDelta))
    return [made for event in received[: last + 1] for made in completer.add(event)] + completer.close()


async def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def files(place: Path, name: str) -> list[str]:
    return [f"file {name}"] if (place / "work" / name).exists() else []


# What was heard, in words.


def words(events: list[Event]) -> list[str]:
    """Deltas of a block are one. What is set, and that all is at rest, belongs to no turn and is looked at apart."""
    result: list[str] = []
    before: type[Event] | None = None
    for event in events:
        if isinstance(event, (*PROGRESS, e.SettingChanged, e.Settled)):
            continue
        if isinstance(event, DELTAS) and type(event) is before:
            result[-1] += event.text
        else:
            result.append(" ".join((type(event).__name__, *details(event))))
        before = type(event)
    return result


def details(event: Event) -> Iterator[str]:
    """What every engine says alike. Ids are each engine's own, but for those of calls, which the model gives; gemini
    and kimi put more before these."""
    match event:
        case e.TextDelta(said) | e.ThinkingDelta(said) | e.ArgsDelta(text=said):
            yield said
        case e.UserMessage(said, origin):
            yield from (origin, said)
        case e.BlockEnded(block):
            yield from (type(block).__name__, getattr(block, "text", ""))
        case e.ReplyEnded(stop):
            yield stop
        case e.ToolCalled(call, args=args):
            yield from (call[-6:], str(args))
        case e.Ask(kind=kind, call=call):
            yield from (kind, call[-6:])
        case e.AskClosed(how=how):
            yield how
        case e.ToolStarted(call):
            yield call[-6:]
        case e.ToolFinished(call, outcome=outcome):
            yield from (outcome, call[-6:])
        case e.TurnEnded("end", usage, steps):
            yield f"end {usage.input} in, {usage.output} out, {steps} steps"
        case e.TurnEnded(reason, failure=failure):
            yield from (reason, failure.owner if failure else "")


# The comparison.


def less(unsaid: tuple[str, ...], told: list[str]) -> list[str]:
    """Without what the dialect lists: events that it never says, and what it does not say of itself."""
    kinds = [word.split() for word in told]
    listed = [kind[0] in unsaid or (kind[0] == "SettingChanged" and f"Ready.{kind[1]}" in unsaid) for kind in kinds]
    return [word for word, left_out in zip(told, listed, strict=True) if not left_out]


def differences(expected: list[str], received: list[str]) -> list[str]:
    actual: list[str] = []
    for how, start, end, other_start, other_end in SequenceMatcher(None, expected, received, False).get_opcodes():
        if how != "equal":
            actual += [f"-{word}" for word in expected[start:end]]
            actual += [f"+{word}" for word in received[other_start:other_end]]
    return actual


def told_apart(expected: list[str], received: list[str], movable: list[str]) -> list[str]:
    """The same, but what is only in another place is one difference."""
    actual = differences(expected, received)
    for kind in movable:
        here, there = ([word for word in result if is_a(kind, word)] for result in (expected, received))
        others = ([word for word in result if not is_a(kind, word)] for result in (expected, received))
        if here == there and len(rest := differences(*others)) < len(actual):
            actual = [f"~{kind}", *rest]
    return actual


def is_a(kind: str, word: str) -> bool:
    return word == kind or word.startswith(f"{kind} ")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Conversation:
    return asyncio.run(asyncio.wait_for(converse(Reference(), tmp_path_factory.mktemp("here")), 3 * PATIENCE))


def test_the_reference_is_the_vocabulary(reference: Conversation) -> None:
    assert reference["deny"] == [
        "TurnStarted",
        "UserMessage prompt DENY",
        "StepStarted",
        'ArgsDelta {"command": "echo made > denied.txt", "description": "makes another"}',
        "ToolCalled call_2 {'command': 'echo made > denied.txt', 'description': 'makes another'}",
        "ReplyEnded calls",
        "ContextUsed",
        "Ask permission call_2",
        "AskClosed denied",
        "ToolFinished denied call_2",
        "StepEnded",
        "StepStarted",
        "TextDelta Then not.",
        "BlockEnded Text Then not.",
        "ReplyEnded end",
        "ContextUsed",
        "StepEnded",
        "CostChanged",
        "TurnEnded end 20 in, 14 out, 2 steps",
    ]


@pytest.mark.parametrize("name", ENGINES)
def test_the_same_program_hears_the_same_events(
    name: str, tmp_path: Path, reference: Conversation, capsys: pytest.CaptureFixture[str]
) -> None:
    engine, known = ENGINES[name], [row for row in DIFFERENCES if name in row.engines]
    movable = [row.event[1:] for row in known if row.event.startswith("~")]
    received = asyncio.run(asyncio.wait_for(converse(engine, tmp_path), 3 * PATIENCE))
    actual = [
        (chapter, difference)
        for chapter, expected in reference.items()
        for difference in told_apart(less(engine.unsaid, expected), less(engine.unsaid, received[chapter]), movable)
    ]
    with capsys.disabled():
        print(f"\n{name}{'' if known else ': nothing differs'}")
        for row in known:
            print(f"    {', '.join(row.chapters) or 'any':<12} {row.event:<22} {row.why}")
    unexplained = [each for each in actual if not any(row.explains(*each) for row in known)]
    assert not unexplained, "not in DIFFERENCES:\n" + "\n".join(f"{chapter}: {event}" for chapter, event in unexplained)
    unused = [row for row in known if row.always and not any(row.explains(*each) for each in actual)]
    assert unused == [], "no longer needed"
