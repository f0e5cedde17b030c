"""Parses a shell command line: which commands would it run, and which files would redirections write?

    read("git log | head > out")    ->    commands: git log, head; writes: out

Commands inside substitutions, loops and conditions count too. What bash might read differently is not guessed: it
raises NotUnderstood, and the user is asked. `command_rules.py` calls it.
"""

import re

from polylect.permissions.shell_words import DEEPEST, NotUnderstood, ParsedLine, Simple, Word, Words
from polylect.wire.lazy_regex import pattern

__all__ = ["NotUnderstood", "ParsedLine", "Simple", "Word", "read"]

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


def read(line: str, parsed: ParsedLine | None = None) -> ParsedLine:
    """Parse a shell command line.

    `parsed` collects the result, if it is passed; a line that raises may have added a part of its content to it. The
    time is proportional to the length of the line and bounded by `MOST_STEPS`. Raises NotUnderstood.
    """
    parsed = parsed or ParsedLine()
    _Grammar(line, parsed).commands_until("")
    return parsed


class _Grammar(Words):
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


_COMPOUND = {
    "{": _Grammar._group,
    "if": _Grammar._if,
    "while": _Grammar._loop,
    "until": _Grammar._loop,
    "for": _Grammar._for,
    "case": _Grammar._case,
    "[[": _Grammar._condition,
}
