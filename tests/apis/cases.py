"""Histories as they really come about: tidy ones, and what crashes, cancels and other vendors leave behind."""

from polylect.vocab.content import Document, Image, Message, Text, Thinking, ToolCall, ToolResult

History = tuple[Message, ...]

PNG = Image("image/png", "aGVsbG8=")


def user(*blocks: Text | Image | Document | str) -> Message:
    return Message("user", tuple(Text(block) if isinstance(block, str) else block for block in blocks))


def assistant(*blocks: Text | Thinking | ToolCall | str) -> Message:
    return Message("assistant", tuple(Text(block) if isinstance(block, str) else block for block in blocks))


def call(id: str, name: str = "Read", **args: str) -> ToolCall:
    return ToolCall(id, name, args)


def result(id: str, output: str = "text", name: str = "Read") -> Message:
    return Message("tool", (ToolResult(id, name, output),))


SIGNED = Thinking("hm", "c2lnbmF0dXJl")
SEALED = Thinking("hm", '{"id":"rs_1","encrypted_content":"abc"}')

CASES: dict[str, History] = {
    "one prompt": (user("hello"),),
    "a dialogue": (user("hello"), assistant("hi"), user("and?")),
    "a call and its result": (user("read"), assistant("ok", call("t1")), result("t1")),
    "two calls, results in another order": (
        user("read"),
        assistant(call("t1"), call("t2")),
        result("t2"),
        result("t1"),
    ),
    "two results in one message": (
        user("read"),
        assistant(call("t1"), call("t2")),
        Message("tool", (ToolResult("t1", "Read", "a"), ToolResult("t2", "Read", "b"))),
    ),
    "a call that nobody answered, then a prompt": (user("read"), assistant(call("t1")), user("never mind")),
    "one of two calls unanswered": (user("read"), assistant(call("t1"), call("t2")), result("t1"), user("go on")),
    "a call that nobody answered, at the end": (user("read"), assistant(call("t1"))),
    "unanswered calls of two replies in a row": (user("read"), assistant(call("t1")), assistant(call("t2"))),
    "a result without its call": (user("hello"), result("gone"), assistant("hi"), user("and?")),
    "a result without its call, first of all": (result("gone"), user("hello")),
    "a result that came twice": (user("read"), assistant(call("t1")), result("t1", "a"), result("t1", "b")),
    "a result that came after the user spoke": (user("read"), assistant(call("t1")), user("faster!"), result("t1")),
    "a result that came one reply too late": (
        user("read"),
        assistant(call("t1")),
        user("so?"),
        assistant("waiting"),
        result("t1"),
        user("now?"),
    ),
    "an id used in every reply": (
        user("read"),
        assistant(call("call_0")),
        result("call_0", "a"),
        assistant(call("call_0")),
        result("call_0", "b"),
    ),
    "an id that vendors refuse": (
        user("read"),
        assistant(call("functions.Read:0 é" + "x" * 80), call("functions.Read:1 é" + "x" * 80)),
        result("functions.Read:1 é" + "x" * 80),
        result("functions.Read:0 é" + "x" * 80),
    ),
    "several prompts in a row": (user("one"), user("two"), user("three")),
    "several replies in a row": (user("one"), assistant("a"), assistant("b"), user("two")),
    "empty texts": (user(""), assistant(""), user("  \n", "hello"), assistant(" "), user("")),
    "nothing at all": (),
    "a reply first": (assistant("welcome"), user("hello")),
    "a reply last": (user("hello"), assistant("hi")),
    "an image": (user("what is this?", PNG),),
    "an image alone": (user(PNG),),
    "an image that was lost": (user("see", Image("image/png", "", "sha256:00")),),
    "an image in a result": (
        user("look"),
        assistant(call("t1"), call("t2")),
        Message("tool", (ToolResult("t1", "Read", "", images=(PNG,)),)),
        result("t2"),
    ),
    "documents": (
        user(
            "read these",
            Document("a.txt", "text/plain", "hello"),
            Document("b.pdf", "application/pdf", data="JVBERg=="),
            Document("c.zip", "application/zip", data="UEs="),
            Document("", "text/plain", ""),
        ),
    ),
    "thinking with a signature": (user("read"), assistant(SIGNED, call("t1")), result("t1")),
    "thinking that was redacted": (user("read"), assistant(Thinking("", redacted="x"), call("t1")), result("t1")),
    "thinking of another vendor": (user("read"), assistant(SEALED, call("t1")), result("t1")),
    "thinking without a signature": (user("read"), assistant(Thinking("hm"), "ok"), user("and?")),
    "a reply cut off while thinking": (user("think"), assistant(SIGNED), user("and?")),
    "a reply cut off while thinking, sealed": (user("think"), assistant(SEALED), user("and?")),
    "a call cut off in its arguments": (
        user("write"),
        assistant(ToolCall("t1", "Write", {}, {"unparsed": '{"file_pa'})),
        result("t1", "not valid JSON", "Write"),
    ),
    "results that are empty or failed": (
        user("run"),
        assistant(call("t1"), call("t2")),
        Message("tool", (ToolResult("t1", "Bash", ""), ToolResult("t2", "Bash", " ", "error"))),
    ),
}
