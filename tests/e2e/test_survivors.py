"""P1 from outside: whatever ends an engine, nothing that it started lives on."""

import signal
from collections.abc import Callable

import pytest

from engine_process import Engine, Place, Sleepers, message


def _leave(engine: Engine) -> None:
    engine.close_input()
    engine.close_output()


ENDS: dict[str, Callable[[Engine], None]] = {
    "kill -9": lambda engine: engine.signal(signal.SIGKILL),
    "SIGTERM": lambda engine: engine.signal(signal.SIGTERM),
    "SIGINT": lambda engine: engine.signal(signal.SIGINT),
    "a host that closes both pipes": _leave,
    "SIGABRT": lambda engine: engine.signal(signal.SIGABRT),
}

_TRAP = "trap '' INT TERM HUP"
DEAF = f'{_TRAP}; setsid bash -c \\"{_TRAP}; {{go}}; sleep {{n}}; sleep {{n}}\\" & sleep {{n}}; sleep {{n}}'


def script(command: str) -> str:
    return f"""
    [[reply]]
    when = {{ step = 1 }}
    say = [
        {{ call = "Bash", id = "t1", args.command = "{command}" }},
        {{ call = "Bash", id = "t2", args.command = "{command}" }},
    ]

    [[reply]]
    text = "Done."
    """


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", ["stubborn", "deaf"])
def test_no_process_survives(place: Place, end: str, kind: str) -> None:
    sleepers = Sleepers(place)
    command = sleepers.command() if kind == "stubborn" else DEAF.format(n=sleepers.length, go=sleepers.go)
    engine = place.started("--force", script=script(command))
    engine.send(message("run"))
    engine.until("tool_running")
    sleepers.wait_until_started()
    assert sleepers.pids()
    ENDS[end](engine)
    engine.wait(within=5.0)
    sleepers.wait_until_gone()


def test_on_eof_stop_leaves_nothing(place: Place) -> None:
    sleepers = Sleepers(place)
    engine = place.started("--force", "--on-eof", "stop", script=script(sleepers.command()))
    engine.send(message("run"))
    engine.until("tool_running")
    sleepers.wait_until_started()
    engine.close_input()
    assert engine.rest()[-1]["type"] == "stream_end"
    assert engine.wait(within=2.0) == 0
    sleepers.wait_until_gone()


def test_what_a_command_leaves_in_the_background_ends_with_it(place: Place) -> None:
    """P1, L7: the call does not wait for it, and neither does the engine."""
    sleepers = Sleepers(place)
    command = f"sleep {sleepers.length} & setsid sleep {sleepers.length} & echo left"
    engine = place.started("--force", script=script(command))
    engine.send(message("run"))
    engine.until("stream_end")
    sleepers.wait_until_gone()
    engine.close_input()
    assert engine.wait(within=2.0) == 0


def crowd(sleepers: Sleepers) -> str:
    """Fifty children of five awkward kinds: plain, in sessions of their own, orphaned, deaf, holding the pipe."""
    n = sleepers.length
    kinds = (
        f"sleep {n} &",
        f"setsid sleep {n} &",
        f"(setsid sleep {n} >/dev/null 2>&1 &) ;",
        f"(trap '' INT TERM HUP; sleep {n}) &",
        f"(setsid nohup sleep {n} 2>&1 | setsid cat) &",
    )
    return f"for i in 1 2 3 4 5 6 7 8 9 10; do {' '.join(kinds)} done; {sleepers.go}; wait"


@pytest.mark.parametrize("end", ["stop", "end of input", "SIGTERM", "kill -9"])
def test_of_fifty_awkward_children_none_is_left_whatever_ends_them(place: Place, end: str) -> None:
    sleepers = Sleepers(place)
    played = f'[[reply]]\nsay = [{{ call = "Bash", id = "t1", args.command = """{crowd(sleepers)}""" }}]'
    engine = place.started("--force", "--on-eof", "stop", script=played)
    engine.send(message("run"))
    engine.until("tool_running")
    sleepers.wait_until_started()
    assert len(sleepers.pids()) >= 50
    match end:
        case "stop":
            engine.send({"type": "stop"})
            engine.until("stream_end")
        case "end of input":
            engine.close_input()
            assert engine.wait(within=5.0) == 0
        case "SIGTERM":
            engine.signal(signal.SIGTERM)
            assert engine.wait(within=5.0) == 143
        case _:
            engine.signal(signal.SIGKILL)
    sleepers.wait_until_gone()
