"""What an extension is handed: `def extend(polylect): ...`."""

import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from polylect.extensions.hook_runner import Stage
from polylect.extensions.registry import Book, Command, Hook, Moment, OfferedTool, matcher
from polylect.vocab.content import Category, Option
from polylect.vocab.events import Ask, Display, Extra
from polylect.vocab.hooks import HookResult, StreamRule

Act = TypeVar("Act", bound=Callable[..., Any])
DEADLINE = 10.0
"""Seconds that code has at each moment, not counting those that a person takes to answer."""
COMMAND_DEADLINE = 120.0


class Polylect:
    """Registers what an extension adds, each as a call or as a decorator, and shows and asks on its behalf."""

    def __init__(self, book: Book, stage: Stage, *, workspace: str, session: str, resumed: bool) -> None:
        self.workspace = workspace
        self.session = session
        self.resumed = resumed
        self._book = book
        self._stage = stage

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A typo in the name of a hook ends the loading, with the nearest name."""
            from difflib import get_close_matches  # 8 ms, and only for an error

            names = [known for known in dir(type(self)) if not known.startswith("_")]
            near = get_close_matches(name, names, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
            raise AttributeError(f"there is no polylect.{name}; {hint}")

    # Moments.

    def before_tool(self, tools: str = "", act: Act | None = None, *, timeout: float = DEADLINE) -> Any:
        """`act(call)` may return allow(), deny(reason), ask(reason) or change(args). If it fails, that is a no."""
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
        """`act(reason)` may return what the summary should heed, or deny(reason)."""
        return self._hook("compaction", act, timeout)

    def on_stop(self, act: Act | None = None, *, timeout: float = DEADLINE) -> Any:
        """`act(text, again)` may return why the model should go on; `again` if it has been sent on before."""
        return self._hook("stop", act, timeout)

    # What else can be added.

    def command(
        self, name: str, act: Act | None = None, *, description: str = "", timeout: float = COMMAND_DEADLINE
    ) -> Any:
        """`/name words` runs `act(words)`; what that returns is shown, and no model hears of it."""
        if not re.fullmatch(r"[\w:.-]+", name):
            raise ValueError(f"{name!r} is no name for a command")

        def add(act: Act) -> Act:
            self._book.commands.append(Command(name, description, act, timeout, self._book.path))
            return act

        return add if act is None else add(act)

    def rule(self, pattern: str, text: str, *, name: str = "") -> None:
        """When the model's text matches, it is stopped, told this, and asked again."""
        re.compile(pattern)
        self._book.rules.append(StreamRule(name or pattern, pattern, text, self._book.path))

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
        """`act(args)` returns what the model is told. `schema` is the JSON Schema of the arguments."""
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
            raise ValueError(f"{name!r} is no name for a tool")

        def add(act: Act) -> Act:
            self._book.tools.append(OfferedTool(name, description, schema, act, category, timeout, self._book.path))
            return act

        return add if act is None else add(act)

    # Opinions.

    def allow(self, reason: str = "") -> HookResult:
        """Nobody has to be asked. A rule that denies it still does."""
        return HookResult("allow", reason)

    def deny(self, reason: str, *, interrupt: bool = False) -> HookResult:
        return HookResult("deny", reason, interrupt=interrupt)

    def ask(self, reason: str = "") -> HookResult:
        """The person has to be asked, whatever the rules say."""
        return HookResult("ask", reason)

    def change(self, args: dict[str, Any]) -> HookResult:
        return HookResult(args=args)

    def tell(self, context: str) -> HookResult:
        return HookResult(context=context)

    # Questions. Where nobody can be asked, the answer is no, or None.

    async def confirm(self, title: str, message: str = "", *, timeout: float = 0) -> bool:
        answer = await self._stage.ask(_question("confirm", title, message, timeout))
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
        self._stage.emit(Display("notify", {"message": message, "notifyType": kind}))

    def status(self, key: str, text: str | None) -> None:
        """None takes it away."""
        self._stage.emit(Display("setStatus", _present(statusKey=key, statusText=text)))

    def widget(self, key: str, lines: Sequence[str] | None) -> None:
        """None takes it away."""
        self._stage.emit(Display("setWidget", _present(widgetKey=key, widgetLines=lines and list(lines))))

    def event(self, kind: str, payload: Any = None) -> None:
        """Something of the extension's own, for hosts that know it."""
        name = os.path.basename(self._book.path).removesuffix(".py")
        self._stage.emit(Extra("plugin_event", {"plugin_name": name, "event_type": kind, "payload": payload}))

    def title(self, text: str) -> None:
        self._stage.emit(Display("setTitle", {"title": text}))

    def _hook(self, moment: Moment, act: Act | None, timeout: float, tools: str = "") -> Any:
        which = matcher(tools)

        def add(act: Act) -> Act:
            self._book.hooks.append(Hook(moment, act, timeout, self._book.path, moment, tools=which))
            return act

        return add if act is None else add(act)

    async def _text(self, question: Ask) -> str | None:
        answer = await self._stage.ask(question)
        value = answer.value[0] if isinstance(answer.value, list) and answer.value else answer.value
        return str(value) if answer.verdict == "allow" and value is not None else None


def _question(kind: Literal["confirm", "choice", "text"], title: str, reason: str, timeout: float, **told: Any) -> Ask:
    return Ask("", kind, title=title, reason=reason, category="info", timeout_ms=int(timeout * 1000), **told)


def _present(**params: Any) -> dict[str, Any]:
    return {key: value for key, value in params.items() if value is not None}
