"""One file for 200 is no different in use, and never knows better than they. Each case is one Python."""

import marshal
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from machine import PATIENCE
from thoroughness import one_in

pytestmark = pytest.mark.long

_SOURCES = Path(__file__).parents[3] / "src" / "polylect"
IMPORT = """
from polylect.app.startup.packed import Pack, PackedImports
with PackedImports() as packed:
    import polylect.app.serving.serve, polylect.app.serving.own_source, asyncio
specs = [getattr(module, '__spec__', None) for module in sys.modules.values()]
ours = [spec.name for spec in specs if spec and type(spec.loader).__name__ == '_Loader']
"""

PACK = "from polylect.app.startup import packed; from polylect.app.serving import own_source, serve; packed.pack()"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with polylect in it, and its pack."""
    folder = tmp_path_factory.mktemp("made")
    shutil.copytree(_SOURCES, folder / "polylect")
    run(folder, PACK)
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    """Another one, with a pack of its own."""
    shutil.copytree(made / "polylect", tmp_path / "polylect")
    run(tmp_path, PACK)
    return tmp_path


def run(folder: Path, program: str, flags: tuple[str, ...] = (), said: str = "", **env: str) -> str:
    program = f"import sys\nsys.path.insert(0, {str(folder)!r})\n{program}"
    argv = [sys.executable, "-c", program, *flags]
    env = {"PATH": os.defpath, "HOME": str(folder), **env}
    done = subprocess.run(
        argv, capture_output=True, text=True, input=said, env=env, cwd=folder, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def packs(folder: Path) -> list[Path]:
    return list((folder / "__pycache__").glob("polylect.*"))


def test_ours_and_what_we_import_comes_from_the_pack(made: Path) -> None:
    program = (
        "print({'polylect.engine.engine', 'asyncio.tasks', 'typing', 'msgspec'} <= set(ours), packed._pack.missed)"
    )
    assert run(made, IMPORT + program) == "True False\n"


def test_a_module_from_the_pack_looks_like_any_other(made: Path) -> None:
    program = """
import inspect
module = polylect.engine.engine
print(module.__file__, module.__spec__.has_location, module.__cached__.endswith('.pack'), polylect.engine.__path__)
print(inspect.getsource(module.Engine)[:12], module.Engine.handle.__code__.co_filename == module.__file__)
"""
    engine = made / "polylect" / "engine"
    assert run(made, IMPORT + program) == f"{engine / 'engine.py'} True True ['{engine}']\nclass Engine True\n"


def test_functions_in_the_pack_have_no_docstrings(made: Path, tmp_path: Path) -> None:
    """Classes keep theirs, and so does a function that uses the same text for something else."""
    program = "print(asyncio.run.__doc__, polylect.engine.engine.Engine.handle.__doc__, bool(asyncio.Task.__doc__))"
    assert run(made, IMPORT + program) == "None None True\n"
    shutil.copytree(made / "polylect", tmp_path / "polylect")
    (tmp_path / "polylect" / "same.py").write_text("def same():\n    'text'\n    return 'text', (lambda: 'x')()\n")
    run(tmp_path, "from polylect.app.startup import packed; packed.pack()")
    program = """
from polylect.app.startup.packed import PackedImports
with PackedImports():
    import polylect.same
print(type(polylect.same.__spec__.loader).__name__, polylect.same.same())
"""
    assert run(tmp_path, program) == "_Loader ('text', 'x')\n"


def test_a_source_that_has_changed_counts(place: Path) -> None:
    with (place / "polylect" / "engine" / "engine.py").open("a") as source:
        source.write("\nCHANGED = 'yes'\n")
    program = (
        "print(polylect.engine.engine.CHANGED, 'polylect.engine.engine' in ours, 'polylect.engine.turn.turns' in ours)"
    )
    assert run(place, IMPORT + program) == "yes False True\n"


def test_a_module_that_is_gone_is_gone(place: Path) -> None:
    (place / "polylect" / "app" / "cli" / "demo.py").unlink()
    program = """
from polylect.app.startup.packed import PackedImports
with PackedImports():
    try:
        import polylect.app.cli.demo
    except ModuleNotFoundError as error:
        print(error)
"""
    assert run(place, program) == "No module named 'polylect.app.cli.demo'\n"


def test_a_pack_that_was_carried_elsewhere_is_not_used(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    assert packs(tmp_path)
    assert (
        run(tmp_path, IMPORT + "print(len(ours), polylect.__file__)") == f"0 {tmp_path / 'polylect' / '__init__.py'}\n"
    )


def test_with_a_path_of_the_users_own_it_is_not_used(made: Path, tmp_path: Path) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('another msgspec')")
    program = "try:\n    import polylect.app.serving.serve\nexcept SystemExit as error:\n    print(error)"
    with_pack = "from polylect.app.startup.packed import PackedImports\nwith PackedImports():\n    " + program.replace(
        "\n", "\n    "
    )
    assert run(made, with_pack, PYTHONPATH=str(tmp_path)) == "another msgspec\n"


def test_the_name_says_for_which_interpreter_and_place_it_was_made(made: Path) -> None:
    [file] = packs(made)
    version = ".".join(map(str, sys.version_info[:3]))
    assert file.name.startswith(f"polylect.{sys.implementation.name}-{version}-")
    name = "from polylect.app.startup.packed import FILE; import os; print(os.path.basename(FILE))"
    assert run(made, name) == f"{file.name}\n"
    elsewhere = run(made, f"sys.prefix = '/elsewhere'\n{name}").strip()
    assert elsewhere.rpartition("-")[0] == file.name.rpartition("-")[0]
    assert elsewhere != file.name


def test_a_pack_of_another_prefix_is_neither_used_nor_touched(place: Path) -> None:
    before = {file: file.read_bytes() for file in packs(place)}
    engine = f"sys.prefix = '/elsewhere'\n{IMPORT}packed.start_making()\npacked.wait_until_made(60)\nprint(len(ours))"
    assert run(place, engine) == "0\n"
    assert {file: file.read_bytes() for file in before} == before
    assert len(packs(place)) == 2


DAMAGE = {
    "cut in the head": lambda whole: whole[:9],
    "cut in the code": lambda whole: whole[:1000],
    "random": lambda whole: os.urandom(len(whole)),
    "zeros": lambda whole: bytes(len(whole)),
    "other code": lambda whole: _with_code(
        whole, lambda code: marshal.dumps(compile("raise SystemExit(9)", "x", "exec"))
    ),
    "no marshal": lambda whole: _with_code(whole, lambda code: os.urandom(len(code))),
    "other blocks": lambda whole: _with_code(whole, _with_lost_blocks),
}


def _with_lost_blocks(code: bytes) -> bytes:
    blocks = [code[begin : begin + 512] for begin in range(0, len(code), 512)]
    return b"".join(bytes(len(block)) if number % 7 == 0 else block for number, block in enumerate(blocks))


def _with_code(whole: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """The same index, and something else in the place of all code."""
    begin = int.from_bytes(whole[:8], "little")
    return whole[:16] + change(whole[16:begin]).ljust(begin - 16, b"0")[: begin - 16] + whole[begin:]


def test_a_damaged_pack_is_a_miss_and_is_written_anew(place: Path) -> None:
    [file] = packs(place)
    whole = file.read_bytes()
    program = IMPORT + "packed.start_making()\npacked.wait_until_made(60)\nagain = Pack.open()\n"
    program += "print(polylect.engine.engine.Engine.__name__, all(again.code(name) for name in again._parts))"
    for how, damage in one_in(2, [*DAMAGE.items()]):
        file.write_bytes(damage(whole))
        assert (how, run(place, "import polylect.app.startup.packed as packed_module\n" + program)) == (
            how,
            "Engine True\n",
        )


SERVE = "sys.argv[0] = 'polylect'\nfrom polylect.app.main import main\nsys.exit(main())"
FLAGS = ("--json-stream", "--no-session", "--provider", "scripted")


def test_the_first_engine_makes_it_and_the_next_has_it(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "polylect", tmp_path / "polylect")
    ping = '{"type":"ping"}\n'
    assert run(tmp_path, SERVE, FLAGS, ping, PYTHONDONTWRITEBYTECODE="1").endswith('{"type":"pong"}\n')
    assert not packs(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n{SERVE}", *FLAGS],
        env={"HOME": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as engine:
        assert engine.stdin
        assert engine.stdout
        engine.stdout.readline()
        for _ in range(100_000):  # it makes the pack while it is idle, and is busy with nothing but pings
            engine.stdin.write(ping.encode())
            engine.stdin.flush()
            assert engine.stdout.readline() == b'{"type":"pong"}\n'
            if [file.suffix for file in packs(tmp_path)] == [".pack"]:
                break
        engine.stdin.close()
    assert [file.suffix for file in packs(tmp_path)] == [".pack"]
    assert run(tmp_path, IMPORT + "print(len(ours) > 100)") == "True\n"


def test_where_it_cannot_be_written_nobody_misses_it(place: Path) -> None:
    shutil.rmtree(place / "__pycache__")
    (place / "__pycache__").touch()  # root may write into any folder, but not into a file
    program = "from polylect.app.startup.packed import PackedImports\n"
    program += "with PackedImports() as packed:\n    packed.start_making()\n"
    assert run(place, program + "packed.wait_until_made(9)\nprint(packed._thread is not None)") == "True\n"


def test_many_at_once_make_one(place: Path) -> None:
    program = (
        "from polylect.app.startup import packed\nfrom polylect.app.serving import own_source, serve\n"
        "for _ in range(3): packed._try_to_pack()"
    )
    argv = [sys.executable, "-c", f"import sys\nsys.path.insert(0, {str(place)!r})\n{program}"]
    makers = [subprocess.Popen(argv, env={"HOME": str(place)}) for _ in range(4)]
    assert [maker.wait(60) for maker in makers] == [0] * 4
    assert run(place, IMPORT + "print(len(ours) > 100, packed._pack.missed)") == "True False\n"


def test_the_switch_turns_it_off_and_nothing_is_written(place: Path) -> None:
    [file] = packs(place)
    program = IMPORT + "packed.start_making()\npacked.wait_until_made(60)\nprint(len(ours), packed._thread)"
    assert run(place, program, POLYLECT_PLAIN_IMPORTS="1") == "0 None\n"
    file.unlink()
    assert run(place, SERVE, FLAGS, '{"type":"ping"}\n', POLYLECT_PLAIN_IMPORTS="1").endswith('{"type":"pong"}\n')
    assert packs(place) == []
