"""Parses a shell command line: which commands would it run, and which files would redirections write?

    read("git log | head > out")    ->    commands: git log, head; writes: out

Commands inside substitutions, loops and conditions count too. What bash might read differently is not guessed: it
raises NotUnderstood, and the user is asked. `command_rules.py` calls it.
"""

import re

from msgspec import Struct

from polylect.wire.lazy_regex import pattern

MOST = 100_000
MOST_STEPS = 5000
"""Commands and parts of words that are read of one line: some 100 ms. A longer line is not understood."""
DEEPEST = 20

_SPECIAL = " \t\n;&|<>()"
_PLAIN = pattern(r"[^ \t\n;&|<>()'\"\\$`]+")
_IN_DOUBLE = pattern(r'[^"\\$`]+')
_IN_DOCUMENT = pattern(r"[^\\$`]+")
_NAME = pattern(r"\$(?:[A-Za-z_]\w*|[0-9@*#?$!-])", re.ASCII)
# Without quotes or anything nested, which mean different things in different places. `@P`, `!x`, `x[...]` and `x:1`
# are left out on purpose: they run or calculate what the variable holds.
_PARAMETER = pattern(
    r"\$\{(?:#?[A-Za-z_]\w*|[0-9@*#?$!-])(?:(?::?[-+]|##?|%%?|//?|\^\^?|,,?)[^{}'\"\\`$<>()\n]*)?\}", re.ASCII
)
_ARITHMETIC = pattern(r"\$\(\(([\w \t$+*/%<>=!&|^~?:,-]*)\)\)", re.ASCII)
_ANSI = pattern(r"\$'((?:[^'\\]|\\[abefnrtv\\\"?])*)'")
_BACKTICKS = pattern(r"`([^`\\]*)`")
_CONTROL = pattern(r"[\x00-\x08\x0b-\x1f\x7f]")
_GLOB = pattern(r"[*?\[{]")
_RESERVED = pattern(r"(?:!|\{|\}|\[\[|[a-z]+)(?=[ \t\n;&|<>()]|$)")
_CLOSING = ("then", "elif", "else", "fi", "do", "done", "esac", "}")
_STRANGE = ("function", "select", "coproc")
_ASSIGNMENT = pattern(r"[A-Za-z_]\w*\+?=", re.ASCII)
_VARIABLE = pattern(r"[A-Za-z_]\w*(?=[ \t\n;])", re.ASCII)
_ELEMENT = pattern(r"[A-Za-z_]\w*\[", re.ASCII)
_REDIRECTION = pattern(r"\d*(<<<|<<-|<<|<&|<>|<|>>|>\||>&|>)|(&>>|&>)", re.ASCII)
_NAMED_FILE = pattern(r"\{\w+\}[<>]")
_DELIMITER = pattern(r"'([^'\n]+)'|\"([^\"\\$`\n]+)\"|(\\?)([\w.-]+)")
_WORD_END = pattern(r"[ \t\n;&|<>()]|$")
_JOINTS = ("&&", "||", "|&", "|")
_CLAUSE_ENDS = (";;&", ";;", ";&")
_HARMLESS = ("/dev/null", "/dev/stdout", "/dev/stderr")
_SOCKETS = ("/dev/tcp/", "/dev/udp/")
SOME_FILE = "a file whose name is not written out"


class NotUnderstood(Exception):
    """The line cannot be parsed with certainty. The text says why."""


class Word(Struct, frozen=True):
    """One word. `literal` is false if the shell expands it: a variable, a pattern, a substitution."""

    text: str
    literal: bool = True


class Simple(Struct, frozen=True):
    """One program or builtin with its arguments, at any depth of the line."""

    words: tuple[Word, ...]


class ParsedLine:
    """The content of a command line, at all depths."""

    def __init__(self) -> None:
        self.commands: list[Simple] = []
        self.writes: list[str] = []
        """Files that redirections write to."""
        self.doubts: list[str] = []
        """What keeps the line from being allowed by its commands alone."""
        self.steps = 0

    def count_step(self) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise NotUnderstood("it is too long")


def read(line: str, parsed: ParsedLine | None = None) -> ParsedLine:
    """Parse a shell command line.

    `parsed` collects the result, if it is passed; a line that raises may have added a part of its content to it. The
    time is proportional to the length of the line and bounded by `MOST_STEPS`. Raises NotUnderstood.
    """
    parsed = parsed or ParsedLine()
    _Grammar(line, parsed).commands_until("")
    return parsed


class _Grammar:
    """A position in a text, and methods to read on from there: each construct as bash reads it, or not at all."""

    def __init__(self, text: str, parsed: ParsedLine, depth: int = 0) -> None:
        if len(text) > MOST or depth > DEEPEST:
            raise NotUnderstood("it is too long or too deep")
        if _CONTROL.search(text) or (not text.isascii() and any(map(_is_invisible, text))):
            raise NotUnderstood("it has characters that cannot be seen")
        self.text = text
        self.parsed = parsed
        self.depth = depth
        self.at = 0
        self.documents: list[tuple[str, bool, bool]] = []
        """Here-documents that begin at the next newline: the word that ends them, is it quoted, are tabs cut off."""

    def commands_until(self, *ends: str, empty: bool = False) -> str:
        """Commands up to one of these words, which is taken and returned; "" is the end of the text."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise NotUnderstood("it is too deep")
        joined = False
        while True:
            self._skip_newlines()
            if (end := self._end(ends)) is not None:
                if not empty or joined or self.documents:
                    raise NotUnderstood("a command is missing")
                self.depth -= 1
                return end
            self._command()
            empty = True
            joined = self._joint()

    def _end(self, ends: tuple[str, ...]) -> str | None:
        for end in ends:
            if end == "":
                if self.at == len(self.text):
                    return end
            elif end in (*_CLAUSE_ENDS, ")"):
                if self.accept(end):
                    return end
            elif self._reserved() == end:
                self.at += len(end)
                return end
        return None

    def _joint(self) -> bool:
        """Past what follows a command. True if another one has to come."""
        self.skip_blanks()
        if any(self.accept(joint) for joint in _JOINTS):
            return True
        if not any(self.looking_at(end) for end in _CLAUSE_ENDS) and not self.accept(";"):
            self.accept("&")
        return False

    def _skip_newlines(self) -> None:
        self.skip_blanks()
        while self.looking_at("\n"):
            self.newline()
            self.skip_blanks()

    def _reserved(self) -> str:
        match = _RESERVED.match(self.text, self.at)
        return match.group() if match else ""

    def _expect(self, word: str) -> None:
        self._skip_newlines()
        if self._reserved() != word:
            raise NotUnderstood(f"{word!r} is missing")
        self.at += len(word)

    # Commands.

    def _command(self) -> None:
        self.parsed.count_step()
        while self._reserved() == "!":
            self.parsed.count_step()
            self.at += 1
            self.skip_blanks()
        if self.looking_at("(("):
            raise NotUnderstood("it calculates")
        if self.accept("("):
            self.commands_until(")")
            return self._redirections()
        word = self._reserved()
        if word in _CLOSING or word in _STRANGE:
            raise NotUnderstood(f"{word!r} is not understood here")
        compound = _COMPOUND.get(word)
        if compound is None:
            return self._simple()
        self.at += len(word)
        compound(self)
        return self._redirections()

    def _group(self) -> None:
        self.commands_until("}")

    def _if(self) -> None:
        self.commands_until("then")
        while (end := self.commands_until("elif", "else", "fi")) == "elif":
            self.commands_until("then")
        if end == "else":
            self.commands_until("fi")

    def _loop(self) -> None:
        self.commands_until("do")
        self.commands_until("done")

    def _for(self) -> None:
        self.parsed.doubts.append("it sets a variable")  # which may be PATH
        self.skip_blanks()
        if not (name := _VARIABLE.match(self.text, self.at)):
            raise NotUnderstood("its loop is not understood")
        self.at = name.end()
        self._skip_newlines()
        if self._reserved() == "in":
            self.at += 2
            self._words()
        self.accept(";")
        self._expect("do")
        self.commands_until("done")

    def _case(self) -> None:
        self.skip_blanks()
        if self.word() is None:
            raise NotUnderstood("a word is missing")
        self._expect("in")
        while True:
            self._skip_newlines()
            if self._reserved() == "esac":
                self.at += 4
                return
            self._patterns()
            if self.commands_until(*_CLAUSE_ENDS, "esac", empty=True) == "esac":
                return

    def _patterns(self) -> None:
        self.accept("(")
        while True:
            self.skip_blanks()
            if self.word() is None:
                raise NotUnderstood("a pattern is missing")
            self.skip_blanks()
            if not self.accept("|"):
                break
        if not self.accept(")"):
            raise NotUnderstood("a pattern is not closed")

    def _condition(self) -> None:
        """`[[ ... ]]`: looked through for substitutions. It can calculate, so it is never simply allowed."""
        self.parsed.doubts.append("it has a condition in [[ ]]")
        while True:
            self._skip_newlines()
            word = self.word()
            if word == Word("]]", literal=True):
                return
            if word is None:
                if self.at == len(self.text) or self.looking_at(";"):
                    raise NotUnderstood("a condition is not closed")
                self.at += 1

    def _words(self) -> list[Word]:
        words: list[Word] = []
        self.skip_blanks()
        while word := self.word():
            words.append(word)
            self.skip_blanks()
        return words

    def _simple(self) -> None:
        words: list[Word] = []
        begin = self.at
        while True:
            self.skip_blanks()
            if self._redirection():
                continue
            if not words and _ELEMENT.match(self.text, self.at):
                raise NotUnderstood("it uses an array")
            if not words and _ASSIGNMENT.match(self.text, self.at):
                self.parsed.doubts.append("it sets a variable")
                self.word()
            elif word := self.word():
                words.append(word)
            else:
                break
        if self.looking_at("(") or self.text[begin : self.at].strip() == "":
            raise NotUnderstood(f"{self.text[self.at : self.at + 12]!r} is not understood here")
        if words:
            self.parsed.commands.append(Simple(tuple(words)))

    # Redirections.

    def _redirections(self) -> None:
        self.skip_blanks()
        while self._redirection():
            self.skip_blanks()

    def _redirection(self) -> bool:
        if _NAMED_FILE.match(self.text, self.at):
            raise NotUnderstood("it keeps a file open under a name")
        match = _REDIRECTION.match(self.text, self.at)
        if not match:
            return False
        kind = match.group(1) or match.group(2)
        if kind in ("<", ">") and self.text.startswith("(", match.end()):
            return False
        self.at = match.end()
        self.skip_blanks()
        if kind in ("<<", "<<-"):
            self._begin_document(cut=kind == "<<-")
        elif (target := self.word()) is None:
            raise NotUnderstood("a redirection leads nowhere")
        else:
            self._redirect(kind, target)
        return True

    def _redirect(self, kind: str, target: Word) -> None:
        if kind == "<<<":
            return
        if kind in ("<&", ">&") and target.literal and re.fullmatch(r"\d+-?|-", target.text, re.ASCII):
            return
        if kind == "<" and target.literal and not target.text.startswith(_SOCKETS):
            return
        if kind in ("<", "<&"):
            self.parsed.doubts.append("it is not clear what it reads from")
        elif not target.literal:
            self.parsed.writes.append(SOME_FILE)
        elif target.text not in _HARMLESS:
            self.parsed.writes.append(target.text)

    def _begin_document(self, *, cut: bool) -> None:
        match = _DELIMITER.match(self.text, self.at)
        if not match or not _WORD_END.match(self.text, match.end()):
            raise NotUnderstood("the end of its here-document is not understood")
        single, double, escape, plain = match.groups()
        self.documents.append((single or double or plain, plain is None or bool(escape), cut))
        self.at = match.end()

    # Words: quoting, expansions and here-documents.

    def looking_at(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def accept(self, text: str) -> bool:
        if self.looking_at(text):
            self.at += len(text)
            return True
        return False

    def skip_blanks(self) -> None:
        """Go to the next token: past blanks, comments, and an escaped newline that joins no words."""
        while self.at < len(self.text):
            if self.text[self.at] in " \t":
                self.at += 1
            elif self.looking_at("\\\n"):
                self._continue_line()
            elif self.looking_at("#"):
                end = self.text.find("\n", self.at)
                self.at = end if end >= 0 else len(self.text)
            else:
                return

    def word(self) -> Word | None:
        """The word at this position; None if there is something else."""
        parts: list[Word] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            inner = self.looking_at("<(") or self.looking_at(">(")
            if char in _SPECIAL and not inner:
                break
            self.parsed.count_step()
            parts.append(self._substitution(2) if inner else self._part(char, first=not parts))
        if not parts:
            return None
        return Word("".join(part.text for part in parts), all(part.literal for part in parts))

    def _part(self, char: str, *, first: bool) -> Word:
        match char:
            case "'":
                return self._single()
            case '"':
                return self._double()
            case "$":
                return self._dollar(quoted=False)
            case "`":
                return self._backticks()
            case "\\":
                escaped = self.text[self.at + 1 : self.at + 2]
                if escaped in ("", "\n"):
                    raise NotUnderstood("a word goes on in the next line")
                self.at += 2
                return Word(escaped)
            case _:
                text = self._run(_PLAIN)
                return Word(text, text == "{}" or not (_GLOB.search(text) or (first and text.startswith("~"))))

    def _single(self) -> Word:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise NotUnderstood("a quote is not closed")
        text = self.text[self.at + 1 : end]
        self._check_newline(text)
        self.at = end + 1
        return Word(text)

    def _double(self) -> Word:
        self.at += 1
        parts: list[Word] = []
        while not self.accept('"'):
            self.parsed.count_step()
            match self.text[self.at : self.at + 1]:
                case "":
                    raise NotUnderstood("a quote is not closed")
                case "$":
                    parts.append(self._dollar(quoted=True))
                case "`":
                    parts.append(self._backticks())
                case "\\":
                    parts.append(self._escaped())
                case _:
                    parts.append(Word(self._run(_IN_DOUBLE)))
                    self._check_newline(parts[-1].text)
        return Word("".join(part.text for part in parts), all(part.literal for part in parts))

    def _escaped(self) -> Word:
        """A backslash inside double quotes."""
        escaped = self.text[self.at + 1 : self.at + 2]
        if escaped == "\n":
            self._continue_line()
            return Word("")
        self.at += 1 + len(escaped)
        return Word(escaped if escaped and escaped in '$`"\\' else "\\" + escaped)

    def _continue_line(self) -> None:
        """An escaped newline is accepted only after a blank: elsewhere it could split `$(` or `&&`."""
        if self.at and self.text[self.at - 1] not in " \t\n":
            raise NotUnderstood("a word goes on in the next line")
        self._check_newline("\n")
        self.at += 2

    def _dollar(self, *, quoted: bool) -> Word:
        if self.looking_at("$(("):
            return self._arithmetic()
        if self.looking_at("$("):
            return self._substitution(2)
        if self.looking_at("$'") and not quoted:
            text = self._run(_ANSI)[2:-1]
            self._check_newline(text)
            return Word(text, "\\" not in text)
        for form in (_PARAMETER, _NAME):
            if match := form.match(self.text, self.at):
                self.at = match.end()
                return Word(match.group(), literal=False)
        if self.looking_at("${") or self.looking_at("$[") or (self.looking_at('$"') and not quoted):
            raise NotUnderstood(f"{self.text[self.at : self.at + 12]!r} can hide a command")
        self.at += 1
        return Word("$")

    def _arithmetic(self) -> Word:
        text = self._run(_ARITHMETIC)
        if re.search(r"[A-Za-z_$]", text[1:]):
            self.parsed.doubts.append("it calculates with variables")
        return Word(text, literal=False)

    def _substitution(self, size: int) -> Word:
        """`$(...)`, `<(...)` or `>(...)`: its commands are added to the line's."""
        self._check_newline("\n")
        begin = self.at
        self.at += size
        self.commands_until(")")
        return Word(self.text[begin : self.at], literal=False)

    def _backticks(self) -> Word:
        text = self._run(_BACKTICKS)
        self._check_newline("\n")
        self.nested(text[1:-1]).commands_until("")
        return Word(text, literal=False)

    def nested(self, text: str) -> "_Grammar":
        return _Grammar(text, self.parsed, self.depth + 1)

    def _run(self, form: re.Pattern[str]) -> str:
        match = form.match(self.text, self.at)
        if not match:
            raise NotUnderstood(f"{self.text[self.at : self.at + 12]!r} can hide a command")
        self.at = match.end()
        return match.group()

    def _check_newline(self, text: str) -> None:
        if self.documents and "\n" in text:
            raise NotUnderstood("it is not clear where its here-document begins")

    # Here-documents.

    def newline(self) -> None:
        self.at += 1
        waiting, self.documents = self.documents, []
        for end, quoted, cut in waiting:
            self._document(end, quoted, cut)

    def _document(self, end: str, quoted: bool, cut: bool) -> None:
        begin = self.at
        while True:
            here, self.at = self.at, self.text.find("\n", self.at) + 1 or len(self.text)
            line = self.text[here : self.at].removesuffix("\n")
            shown = line.lstrip("\t") if cut else line
            if shown == end:
                break
            if shown.startswith(end) or here == len(self.text):
                raise NotUnderstood("it is not clear where its here-document ends")
        body = self.text[begin:here]
        if not quoted:
            if "\\\n" in body:
                raise NotUnderstood("it is not clear where its here-document ends")
            self.nested(body).expansions()

    def expansions(self) -> None:
        """Read a text in which only `$`, backticks and backslashes have a meaning."""
        while self.at < len(self.text):
            self.parsed.count_step()
            if self.looking_at("\\"):
                self.at += 2
            elif self.looking_at("$"):
                self._dollar(quoted=True)
            elif self.looking_at("`"):
                self._backticks()
            else:
                self._run(_IN_DOCUMENT)


_COMPOUND = {
    "{": _Grammar._group,
    "if": _Grammar._if,
    "while": _Grammar._loop,
    "until": _Grammar._loop,
    "for": _Grammar._for,
    "case": _Grammar._case,
    "[[": _Grammar._condition,
}


def _is_invisible(char: str) -> bool:
    return char > "\x7f" and (char.isspace() or not char.isprintable())
