"""P1 against commands that fight those who watch over them, where no sandbox keeps them from it."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from doubles_tools import watched
from engine_process import Engine, Place, Sleepers, message

# $W is the warden of the command, $G the guardian. What goes on and on ends by itself, for where its guard is missing.
STOPS = {
    "it stops its warden": "kill -STOP $W",
    "it stops both": "kill -STOP $W $G",
    "it stops its warden and kills the guardian": "kill -9 $G; kill -STOP $W",
    "it stops the engine as well": "kill -STOP $W $G $(ps -o ppid= $G)",
}
AGAIN_AND_AGAIN = "(trap '' INT TERM; while ((SECONDS < 20)); do kill -STOP $W $G; done) 2>/dev/null & true"
KILLS = {
    "it kills both": "{go}; kill -9 $G $W",
    "it kills both the other way round": "{go}; kill -9 $W $G",
    "it kills its warden and stops the guardian": "{go}; kill -STOP $G; kill -9 $W",
    "it kills the guardian, then its warden": "{go}; kill -9 $G; sleep 0.1; kill -9 $W",
    "it forks on and on": "{go}; (trap '' INT TERM; while ((SECONDS < 3)); do setsid sleep {n} & done) & kill -9 $G $W",
}


class Attack:
    """An engine whose command has started sleepers and turned, or is about to turn, on its watchers."""

    def __init__(self, place: Place, attack: str) -> None:
        self.sleepers = Sleepers(place)
        self._pids = place.workspace / "pids"
        n = self.sleepers.length
        command = (
            "W=$PPID; G=$(ps -o ppid= $W); echo $W $G > pids;"
            f" setsid sleep {n} & (setsid sleep {n} >/dev/null 2>&1 &);"
            f" {attack.format(n=n, go=self.sleepers.go)}; {self.sleepers.go}; sleep {n}"
        )
        place.configure('[sandbox]\nmode = "off"\n')
        script = f"[[reply]]\nwhen.step = 1\nsay = [{{ call = 'Bash', id = 't1', args.command = '''{command}''' }}]\n"
        self.engine: Engine = place.started("--force", script=script + '[[reply]]\ntext = "Done."\n')
        self.engine.send(message("run"))
        self.engine.until("tool_running")
        self.sleepers.wait_until_started()

    def watchers(self) -> tuple[int, int]:
        warden, guardian = map(int, self._pids.read_text().split())
        return warden, guardian


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as place:
        yield place


@pytest.mark.parametrize("attack", [*list(STOPS)[:3], "again and again"])
def test_P1_stop_ends_all_of_a_command_that_stops_its_watchers(place: Place, attack: str) -> None:
    fight = Attack(place, STOPS.get(attack, AGAIN_AND_AGAIN))
    with watched(fight.watchers()[:1]) as all_end_within:
        fight.engine.send({"type": "stop"})
        fight.engine.until("stream_end")
        fight.sleepers.wait_until_gone()
        assert all_end_within(3)
    assert fight.engine.finish()[1] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("attack", STOPS)
def test_P1_the_end_of_the_engine_ends_all_of_a_command_that_stops_its_watchers(
    place: Place, attack: str, number: signal.Signals
) -> None:
    fight = Attack(place, STOPS[attack])
    with watched(fight.watchers()) as all_end_within:
        if "engine" in attack and number != signal.SIGKILL:
            fight.engine.signal(signal.SIGCONT)  # or it would not hear
        fight.engine.signal(number)
        fight.engine.wait(within=5)
        fight.sleepers.wait_until_gone()
        assert all_end_within(3)


@pytest.mark.parametrize("attack", KILLS)
def test_P1_a_command_that_kills_its_watchers_ends_with_all_that_it_started(place: Place, attack: str) -> None:
    fight = Attack(place, KILLS[attack])
    frames = fight.engine.until("stream_end")
    fight.sleepers.wait_until_gone()
    (result,) = [frame for frame in frames if frame["type"] == "tool_result"]
    assert result["output"].endswith("was killed, and the command with it.")
    assert fight.engine.finish()[1] == 0
