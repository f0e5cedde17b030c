"""A conversation survives engines that are killed at any moment: S1, T1, T4 with real processes and kill -9."""

import signal
import sys

from e2e.crashes import survives
from engine_process import Engine, Place


def test_S1_after_a_dozen_kills_nothing_acknowledged_is_lost_and_nothing_is_left_over(place: Place) -> None:
    """`make interop` does the same with three hundred."""
    assert survives(place, seed=1, kills=12).lives == 12


def test_T1_messages_for_a_turn_that_were_acknowledged_outlive_a_kill(place: Place) -> None:
    argv = [sys.executable, "-m", "polylect", "--mode", "rpc", *place.script("[[reply]]\nsay = [{ hang = true }]")]
    engine = Engine([*argv, "--session-id", "one"], place.workspace, place.env)
    place.keep(engine)
    engine.send({"type": "prompt", "message": "Hello"})
    engine.until("turn_start")
    for number, kind in enumerate(("steer", "follow_up", "steer")):
        engine.send({"type": kind, "id": f"r{number}", "message": f"m{number}"})
        assert engine.until("response")[-1]["success"]
    engine.signal(signal.SIGKILL)
    engine.wait()
    for _ in range(2):
        again = Engine([*argv, "--resume", "one"], place.workspace, place.env)
        place.keep(again)
        again.send({"type": "get_messages"})
        actual = again.until("response")[-1]["data"]["messages"]
        assert [message["content"][0]["text"] for message in actual] == ["Hello", "m0", "m1", "m2"]
        again.close_input()
        assert again.wait() == 0
