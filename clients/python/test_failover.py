"""A primary that fails before its first word: the SDK gets the standby's answer and learns of it from headers only."""

from __future__ import annotations

import json

import pytest

import scripts
from conftest import MODEL, Line
from processes import KEY, PRIMARY_KEY, STANDBY_KEY

MESSAGES = [{"role": "user", "content": "Hello"}]
TEXT = "the standby answers in seven plain words"

FAILURES = {
    "reset-before-headers": scripts.RESET_BEFORE_HEADERS,
    "close-after-read": scripts.CLOSE_AFTER_READ,
    "500": scripts.server_error(500),
    "503": scripts.overloaded(503),
    "529": scripts.overloaded(529),
    "429-with-guidance": scripts.rate_limit(30),
    "429-without-guidance": scripts.rate_limit(None),
    "silence": scripts.SILENCE,
    "role-only": scripts.ROLE_ONLY,
    "heartbeats-only": scripts.HEARTBEATS_ONLY,
    "cut-before-output": scripts.breaks("cut", 0, "never seen"),
    "end-before-output": scripts.breaks("end", 0, "never seen"),
    "error-event-first": scripts.error_event(0, scripts.error("boom", "server_error")),
    "html": scripts.HTML,
    "no-choices": scripts.NO_CHOICES,
    "empty-200": scripts.EMPTY,
}


def assert_standby_answered(line: Line, headers, stream: bool, text: str) -> None:
    assert text == TEXT
    assert headers["x-pointsman-target"] == "standby"
    assert headers["x-pointsman-action"] == "failover"
    assert headers["x-pointsman-attempts"] == "2"
    assert "x-pointsman-substituted" not in headers, "the same model answered"
    assert line.completions == 1
    assert line.standby.calls == 1
    assert b'"error"' not in line.relay.answers
    if stream:
        assert line.relay.answers.count(b"data: [DONE]") == 1
        assert line.relay.answers.count(b'"role":"assistant"') <= 1, "one answer has one beginning"


def ask(line: Line, stream: bool):
    """The answer's headers and text; for a stream by its words."""
    raw = line.client().chat.completions.with_raw_response.create(model=MODEL, messages=MESSAGES, stream=stream)
    answer = raw.parse()
    if stream:
        chunks = list(answer)
        return raw.headers, "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    return raw.headers, answer.choices[0].message.content


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES.keys())
def test_failover_is_invisible(line: Line, failure, stream: bool) -> None:
    line.primary.set(failure)
    line.standby.set(scripts.answer(TEXT))
    headers, text = ask(line, stream)
    assert_standby_answered(line, headers, stream, text)
    assert line.primary.calls == 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_failover_from_a_dead_provider_is_invisible(line: Line, stream: bool) -> None:
    line.primary.kill()
    line.standby.set(scripts.answer(TEXT))
    headers, text = ask(line, stream)
    assert_standby_answered(line, headers, stream, text)


def test_a_whole_answer_that_breaks_off_is_taken_from_the_standby(line: Line) -> None:
    """Without a stream nothing has gone out yet when the body breaks: the standby may still answer."""
    line.primary.set(scripts.breaks("cut", 3, "one two three four five six"))
    line.standby.set(scripts.answer(TEXT))
    headers, text = ask(line, stream=False)
    assert_standby_answered(line, headers, False, text)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_tool_call_survives_failover_exactly_once(line: Line, stream: bool) -> None:
    line.primary.set(scripts.server_error(500))
    line.standby.set(scripts.tool_call("pay", {"amount": 5}))
    tool = {"type": "function", "function": {"name": "pay", "parameters": {"type": "object", "properties": {}}}}
    answer = line.client().chat.completions.create(model=MODEL, messages=MESSAGES, tools=[tool], stream=stream)
    if stream:
        parts = [part for chunk in answer if chunk.choices for part in chunk.choices[0].delta.tool_calls or []]
        names = [part.function.name for part in parts if part.function.name]
    else:
        names = [call.function.name for call in answer.choices[0].message.tool_calls]
    assert names == ["pay"]
    assert (line.completions, line.primary.calls, line.standby.calls) == (1, 1, 1)


def test_a_rate_limit_of_one_keyless_server_says_nothing_about_its_neighbour(open_line) -> None:
    line = open_line(provider_keys=False)
    line.primary.set(scripts.rate_limit(30))
    line.standby.set(scripts.answer(TEXT))
    headers, text = ask(line, stream=True)
    assert_standby_answered(line, headers, True, text)


def test_each_provider_sees_its_own_credential_only(line: Line) -> None:
    line.primary.set(scripts.server_error(500))
    ask(line, stream=False)
    for sim, own, other in ((line.primary, PRIMARY_KEY, STANDBY_KEY), (line.standby, STANDBY_KEY, PRIMARY_KEY)):
        [received] = [one for one in sim.received() if "/chat/completions" in one["path"]]
        shown = [value for name, value in received["headers"] if name.lower() == "authorization"]
        assert len(shown) == 1 and shown[0].endswith(own[-4:])
        everything = json.dumps(received)
        assert other[-4:] not in everything and KEY[-4:] not in everything
