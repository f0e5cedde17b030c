"""`stop` and queued prompts: every accepted prompt ends exactly once, and the engine stays usable (L1, T2, T3)."""

from engine_process import Engine, Place, Sleepers, message

OLD = ("--protocol", "0.1.0")
STOP = {"type": "stop"}
HANGS = """
[[reply]]
when.prompt = "hang"
say = ["Let me think", { hang = true }]

[[reply]]
text = "Still here."
"""
ASKS = """
[[reply]]
when = { prompt = "run", step = 1 }
say = [{ call = "Bash", id = "t1", args.command = "true" }, { call = "Bash", id = "t2", args.command = "true" }]

[[reply]]
text = "Still here."
"""


def answers_again(engine: Engine, msg_id: str = "again") -> None:
    engine.send(message("Hello", msg_id))
    frames = engine.until("stream_end")
    assert [frame["type"] for frame in frames] == ["stream_start", "text_delta", "stream_end"]
    assert frames[1] == {"type": "text_delta", "text": "Still here.", "msg_id": msg_id}


def test_stop_during_text_ends_the_turn_and_nothing_else(place: Place) -> None:
    engine = place.started(*OLD, script=HANGS)
    engine.talk("""
        → {"type":"message","msg_id":"m1","input":"hang"}
        ← {"type":"stream_start","msg_id":"m1"}
        ← {"type":"text_delta","text":"Let me think","msg_id":"m1"}
        → {"type":"stop"}
        ← {"type":"stream_end","msg_id":"m1","usage":{"input_tokens":0,"output_tokens":0}}
    """)
    answers_again(engine)


def test_stop_during_a_tool_cancels_it_visibly_and_leaves_no_process(place: Place) -> None:
    """P1, T3."""
    sleepers = Sleepers(place)
    script = f"""
    [[reply]]
    when = {{ prompt = "run", step = 1 }}
    say = [{{ call = "Bash", id = "t1", args.command = "{sleepers.command()}" }}]

    [[reply]]
    text = "Still here."
    """
    engine = place.started(*OLD, "--force", script=script)
    engine.send(message("run"))
    assert engine.until("tool_running")
    sleepers.wait_until_started()
    engine.talk("""
        → {"type":"stop"}
        ← {"type":"tool_cancelled","msg_id":"m1","call_id":"t1","reason":"Stopped"}
    """)
    assert engine.frame()["type"] == "stream_end"
    sleepers.wait_until_gone()
    answers_again(engine)


def test_stop_during_an_ask_closes_every_open_call(place: Place) -> None:
    engine = place.started(*OLD, script=ASKS)
    engine.send(message("run"))
    engine.until("tool_request")
    engine.until("tool_request")
    engine.talk("""
        → {"type":"stop"}
        ← {"type":"tool_cancelled","msg_id":"m1","call_id":"t1","reason":"Stopped"}
        ← {"type":"tool_cancelled","msg_id":"m1","call_id":"t2","reason":"Stopped"}
    """)
    assert engine.frame()["type"] == "stream_end"
    engine.send({"type": "tool_approve", "call_id": "t1", "scope": "once"})
    assert engine.frame()["error"]["code"] == "protocol_error"
    answers_again(engine)


def test_stop_when_idle_does_nothing(place: Place) -> None:
    engine = place.started(*OLD, script=HANGS)
    engine.send(STOP, STOP, {"type": "ping"})
    assert engine.frame() == {"type": "pong"}
    answers_again(engine)


def test_stop_answers_every_queued_prompt(place: Place) -> None:
    """T2."""
    engine = place.started(*OLD, script=HANGS)
    engine.send(message("hang", "m1"), message("two", "m2"), message("three", "m3"))
    engine.until("text_delta")
    engine.send(STOP)
    ended = [engine.frame() for _ in range(3)]
    assert [(frame["type"], frame["msg_id"]) for frame in ended] == [
        ("stream_end", "m1"),
        ("stream_end", "m2"),
        ("stream_end", "m3"),
    ]
    answers_again(engine)


def test_queued_prompts_get_their_own_turns_in_order(place: Place) -> None:
    """L1, T2."""
    engine = place.started(*OLD, script='[[reply]]\ntext = "{prompt}"')
    names = [f"m{number}" for number in range(60)]
    engine.send(*(message(f"<{name}>", name) for name in names))
    for name in names:
        frames = engine.until("stream_end")
        assert [frame["type"] for frame in frames] == ["stream_start", "text_delta", "stream_end"]
        assert {frame["msg_id"] for frame in frames} == {name}
        assert frames[1]["text"] == f"<{name}>"


def test_a_queue_that_is_full_refuses_with_an_answer(place: Place) -> None:
    """L2, T2: 64 wait; each of the others is told and ended."""
    engine = place.started(*OLD, script=HANGS)
    engine.send(message("hang", "m1"))
    engine.until("text_delta")
    engine.send(*(message("later", f"q{number}") for number in range(65)))
    error, end = engine.frame(), engine.frame()
    assert (error["type"], error["msg_id"], error["error"]["retryable"]) == ("error", "q64", True)
    assert (end["type"], end["msg_id"]) == ("stream_end", "q64")
    engine.send(STOP)
    ended = [engine.frame()["msg_id"] for _ in range(65)]
    assert ended == ["m1", *(f"q{number}" for number in range(64))]


def test_control_overtakes_work(place: Place) -> None:
    """L4: a ping is answered in the middle of a flood."""
    engine = place.started(*OLD, script='[[reply]]\nsay = [{ text = "word ", repeat = 200000 }]')
    engine.send(message("flood"))
    engine.until("text_delta")
    engine.send({"type": "ping"})
    received = engine.until("pong")
    assert all(frame["type"] in ("text_delta", "pong") for frame in received)
    engine.send(STOP)
    engine.until("stream_end")


def test_a_long_silence_is_broken_by_signs_of_life(place: Place) -> None:
    """L3: a running call is named again, a silent model thinks nothing."""
    place.configure("heartbeat = 0.2")
    script = """
    [[reply]]
    when.step = 1
    say = [{ call = "Bash", id = "t1", args.command = "sleep 60" }]
    """
    engine = place.started(*OLD, "--force", script=script)
    engine.send(message("run"))
    running = {"type": "tool_running", "msg_id": "m1", "call_id": "t1", "tool_name": "Bash"}
    engine.until("tool_running")
    assert [engine.frame(), engine.frame()] == [running, running]
    engine.send(STOP)
    engine.until("stream_end")

    silent = place.started(*OLD, script=HANGS)
    silent.send(message("hang"))
    silent.until("text_delta")
    assert silent.frame() == {"type": "thinking", "text": "", "msg_id": "m1"}


def test_a_silent_model_is_cut_off_and_reported(place: Place) -> None:
    """L6."""
    engine = place.started(*OLD, "--stream-timeout", "0.2", script=HANGS)
    engine.send(message("hang"))
    *_, error, end = engine.until("stream_end")
    assert (error["type"], error["error"]["code"], end["type"]) == ("error", "provider_error", "stream_end")
    answers_again(engine)


def test_an_ask_that_nobody_answers_in_time_is_denied_and_said_so(place: Place) -> None:
    """A2."""
    engine = place.started(*OLD, "--approval-timeout", "0.1", script=ASKS)
    engine.send(message("run"))
    frames = engine.until("stream_end")
    reasons = [frame["reason"] for frame in frames if frame["type"] == "tool_cancelled"]
    assert reasons == ["approval timed out after 0.1 s"] * 2
