"""Grep: searches the content of files with a regular expression. The worker runs ripgrep (`worker/searching.py`).

Its parameters are those of Claude Code's tool, which models know best; these are named after ripgrep's flags.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from polylect.tools.arguments import TypedTool, display_argument
from polylect.tools.files.file_access import search_folder
from polylect.tools.files.paths import admit
from polylect.tools.setup import ToolSetup
from polylect.vocab.content import Category
from polylect.vocab.ports import Tool, ToolContext, ToolReturn

TEXT = """\
Searches the content of files with a regular expression and shows `file:line:text` for the first 250 matching lines;
offset goes on from there. -A, -B and -C add lines of context, as `file-line-text`. With output_mode it shows only the
files that match, or how often each one does. Files that git ignores are left out."""

DEFAULT_LINES = 250
MOST_LINES = 10_000
"""Lines that `head_limit` can ask for."""
MOST_OFFSET = 100_000
MOST_CONTEXT = 10_000

Mode = Literal["content", "files_with_matches", "count"]
_MODES: dict[Mode, str] = {
    "content": "--line-number",
    "files_with_matches": "--files-with-matches",
    "count": "--count",
}
Around = Annotated[int, Meta(ge=0, description="Lines to show before and after each match.")]
Before = Annotated[int, Meta(ge=0, description="Lines to show before each match.")]
After = Annotated[int, Meta(ge=0, description="Lines to show after each match.")]
Numbers = Annotated[bool, Meta(description="Show the numbers of lines.")]
IgnoreCase = Annotated[bool, Meta(description="Take capital and small letters as equal.")]
OnlyMatching = Annotated[bool, Meta(description="Show only what matches of each line.")]


class Arguments(Struct, frozen=True):
    pattern: Annotated[str, Meta(description="The regular expression.")]
    path: Annotated[str, Meta(description="The file or folder to search; the workspace if left out.")] = "."
    glob: Annotated[str, Meta(description="Only files like this: `*.py`, `src/**/*.{ts,tsx}`.")] = ""
    type: Annotated[str, Meta(description="Only files of this kind: py, js, rust, go, java ...")] = ""
    output_mode: Annotated[Mode, Meta(description="What to show for each match.")] = "content"
    ignore_case: IgnoreCase = field(default=False, name="-i")
    numbers: Numbers = field(default=True, name="-n")
    only_matching: OnlyMatching = field(default=False, name="-o")
    around: Around = field(default=0, name="-C")
    before: Before = field(default=0, name="-B")
    after: After = field(default=0, name="-A")
    multiline: Annotated[bool, Meta(description="Let a match go over several lines, and `.` match line ends.")] = False
    head_limit: Annotated[
        int, Meta(ge=0, description="How many lines or files to show at most; 0 for as many as fit.")
    ] = DEFAULT_LINES
    offset: Annotated[int, Meta(ge=0, le=MOST_OFFSET, description="How many lines or files to skip first.")] = 0


class Grep(TypedTool[Arguments]):
    name = "Grep"
    category: Category = "info"
    text = TEXT
    arguments = Arguments
    path_argument = "path"
    default_path = "."
    other_parameters: Mapping[str, str] = {"context": "-C", "case_insensitive": "-i"}

    def describe(self, args: dict[str, Any]) -> str:
        return f"Grep '{display_argument(args, 'pattern')}' in {display_argument(args, 'path', '.')}"

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        real = admit(args.path, context)
        request = {
            "options": _options(args),
            "path": args.path,
            "most": min(args.head_limit or MOST_LINES, MOST_LINES),
            "offset": args.offset,
            "numbers": args.numbers,
            "by_file": args.output_mode == "files_with_matches",
        }
        return ToolReturn(await search_folder("grep", real, request, context))


def _options(args: Arguments) -> list[str]:
    """Not sorted: ripgrep would work on one core only, and sorting the little that is shown is ours."""
    options = [_MODES[args.output_mode], "--no-heading", "--with-filename", "--null", f"--regexp={args.pattern}"]
    if args.ignore_case:
        options.append("--ignore-case")
    if args.multiline:
        options += ["--multiline", "--multiline-dotall"]
    if args.glob:
        options.append(f"--glob={args.glob}")
    if args.type:
        options.append(f"--type={args.type}")
    if args.output_mode == "content":
        before, after = (min(lines or args.around, MOST_CONTEXT) for lines in (args.before, args.after))
        options += [f"--before-context={before}", f"--after-context={after}"]
        options += ["--only-matching"] if args.only_matching else []
    return options


def open_tool(setup: ToolSetup) -> Tool:
    return Grep()
