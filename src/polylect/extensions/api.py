"""The object that an extension gets: `def extend(polylect): ...`.

An extension is a Python file or an installed package with a function `extend`. It registers hooks, commands, stream
rules and tools on this object, and uses it later to show things to the person and to ask questions:

    def extend(polylect):
        @polylect.before_tool("Bash")
        def guard(call):
            if "rm -rf" in call.args["command"]:
                return polylect.deny("not here")

Registering only fills a `Registry`; `extensions.py` puts it into force once `extend` has returned. The names and
parameters here are a public interface (docs/extensions.md).
"""

import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from polylect.extensions.hook_runner import HookRunner
from polylect.extensions.registry import Command, Hook, Moment, OfferedTool, Registry, matcher
from polylect.vocab.content import Category, Option, StreamRule
from polylect.vocab.events import Ask, Display, ExtensionEvent
from polylect.vocab.hooks import HookResult

Act = TypeVar("Act", bound=Callable[..., Any])
DEADLINE = 10.0
"""Seconds that a hook may take, without the time in which a person answers its questions."""
COMMAND_DEADLINE = 120.0


class Polylect:
    """Registers what an extension adds, each by a call or as a decorator, and shows and asks on its behalf."""

    def __init__(self, registry: Registry, runner: HookRunner, *, workspace: str, session: str, resumed: bool) -> None:
        self.workspace = workspace
        self.session = session
        self.resumed = resumed
        self._registry = registry
        self._runner = runner

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """An unknown name ends the loading of the extension, with an error that suggests the nearest name."""
            from difflib import get_close_matches  # 8 ms, and only for an error

            names = [known for known in dir(type(self)) if not known.startswith("_")]
            near = get_close_matches(name, names, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
            raise AttributeError(f"there is no polylect.{name}; {hint}")

    # Hooks.

    def before_tool(self, tools: str = "", act: Act | None = None, *, timeout: float = DEADLINE) -> Any:
        """`act(call)` may return allow(), deny(reason), ask(reason) or change(args). If it fails, that denies."""
        return self._hook("before_tool", act, timeout, tools)

    def after_tool(self, tools: str = "", act: Act | None = None, *, timeout: float = DEADLINE) -> Any:
        """`act(call, returned)` may return other output, or tell(text) to add some."""
        return self._hook("after_tool", act, timeout, tools)

    def on_prompt(self, act: Act | None = None, *, timeout: float = DEADLINE) -> Any:
        """`act(text)` may return another text, tell(context) or deny(reason)."""
        return self._hook("prompt", act, timeout)

    def on_session_start(self, act: Act | None = None, *, timeout: float = DEADLINE) -> Any:
        """`act()` may return what the model should know from the beginning."""
        return self._hook("session_start", act, timeout)

    def on_session_end(self, act: Act | None = None, *, timeout: float = DEADLINE) -> Any:
        """`act()` has one second, together with all others."""
        return self._hook("session_end", act, timeout)

    def on_compaction(self, act: Act | None = None, *, timeout: float = DEADLINE) -> Any:
        """`act(reason)` may return what the summary should contain, or deny(reason)."""
        return self._hook("compaction", act, timeout)

    def on_stop(self, act: Act | None = None, *, timeout: float = DEADLINE) -> Any:
        """`act(text, again)` may return why the model should go on. `again` is true if a hook made it go on before."""
        return self._hook("stop", act, timeout)

    # What else can be added.

    def command(
        self, name: str, act: Act | None = None, *, description: str = "", timeout: float = COMMAND_DEADLINE
    ) -> Any:
        """`/name words` runs `act(words)`. The person sees what it returns; the model does not."""
        if not re.fullmatch(r"[\w:.-]+", name):
            raise ValueError(f"{name!r} is no name for a command")

        commands, path = self._registry.commands, self._registry.path
        return _decorator(lambda act: commands.append(Command(name, description, act, timeout, path)), act)

    def rule(self, pattern: str, text: str, *, name: str = "") -> None:
        """When the model's text matches, the reply is stopped and requested again, with `text` as an instruction."""
        re.compile(pattern)
        self._registry.rules.append(StreamRule(name or pattern, pattern, text, self._registry.path))

    def tool(
        self,
        name: str,
        description: str,
        schema: dict[str, Any],
        act: Act | None = None,
        *,
        category: Category = "exec",
        timeout: float = COMMAND_DEADLINE,
    ) -> Any:
        """`act(args)` returns the output for the model. `schema` is the JSON Schema of the arguments."""
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
            raise ValueError(f"{name!r} is no name for a tool")

        tools, path = self._registry.tools, self._registry.path
        return _decorator(
            lambda act: tools.append(OfferedTool(name, description, schema, act, category, timeout, path)), act
        )

    # Results of hooks.

    def allow(self, reason: str = "") -> HookResult:
        """The call runs without an ask. A rule that denies it still applies."""
        return HookResult("allow", reason)

    def deny(self, reason: str, *, interrupt: bool = False) -> HookResult:
        return HookResult("deny", reason, interrupt=interrupt)

    def ask(self, reason: str = "") -> HookResult:
        """The person is asked, whatever the rules say."""
        return HookResult("ask", reason)

    def change(self, args: dict[str, Any]) -> HookResult:
        return HookResult(args=args)

    def tell(self, context: str) -> HookResult:
        return HookResult(context=context)

    # Questions. Without a person who can answer, the result is False or None.

    async def confirm(self, title: str, message: str = "", *, timeout: float = 0) -> bool:
        answer = await self._runner.ask(_question("confirm", title, message, timeout))
        return answer.verdict == "allow" and answer.value is not False

    async def select(self, title: str, options: Sequence[str], *, timeout: float = 0) -> str | None:
        choices = tuple(Option(option, option) for option in options)
        return await self._text(_question("choice", title, "", timeout, options=choices))

    async def input(self, title: str, placeholder: str = "", *, timeout: float = 0) -> str | None:
        return await self._text(_question("text", title, placeholder, timeout))

    async def editor(self, title: str, text: str = "") -> str | None:
        return await self._text(_question("text", title, "", 0, default=text))

    # Things to show.

    def notify(self, message: str, kind: Literal["info", "warning", "error"] = "info") -> None:
        self._runner.emit(Display("notify", {"message": message, "notifyType": kind}))

    def status(self, key: str, text: str | None) -> None:
        """`None` removes it."""
        self._runner.emit(Display("setStatus", _present(statusKey=key, statusText=text)))

    def widget(self, key: str, lines: Sequence[str] | None) -> None:
        """`None` removes it."""
        self._runner.emit(Display("setWidget", _present(widgetKey=key, widgetLines=lines and list(lines))))

    def event(self, kind: str, payload: Any = None) -> None:
        """An event of the extension's own, for hosts that know it."""
        name = os.path.basename(self._registry.path).removesuffix(".py")
        self._runner.emit(ExtensionEvent(name, kind, payload))

    def title(self, text: str) -> None:
        self._runner.emit(Display("setTitle", {"title": text}))

    def _hook(self, moment: Moment, act: Act | None, timeout: float, tools: str = "") -> Any:
        which, hooks, path = matcher(tools), self._registry.hooks, self._registry.path
        return _decorator(lambda act: hooks.append(Hook(moment, act, timeout, path, moment, tools=which)), act)

    async def _text(self, question: Ask) -> str | None:
        answer = await self._runner.ask(question)
        value = answer.value[0] if isinstance(answer.value, list) and answer.value else answer.value
        return str(value) if answer.verdict == "allow" and value is not None else None


def _decorator(store: Callable[[Any], None], act: Act | None) -> Any:
    """Stores `act`, or returns a decorator that stores the function below it."""

    def add(act: Act) -> Act:
        store(act)
        return act

    return add if act is None else add(act)


def _question(kind: Literal["confirm", "choice", "text"], title: str, reason: str, timeout: float, **more: Any) -> Ask:
    return Ask("", kind, title=title, reason=reason, category="info", timeout_ms=int(timeout * 1000), **more)


def _present(**params: Any) -> dict[str, Any]:
    return {key: value for key, value in params.items() if value is not None}
