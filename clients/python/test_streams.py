"""Streams after their first word, and before it when that takes long."""

from __future__ import annotations

import re

import openai
import pytest

import scripts
from conftest import MODEL, Line
from processes import wait_for

MESSAGES = [{"role": "user", "content": "Hello"}]
TEXT = "one two three four five six seven eight"
HEARTBEAT = re.compile(rb"(?m)^:[^\n]*\n\r?\n")


def start(line: Line):
    return line.client().chat.completions.create(model=MODEL, messages=MESSAGES, stream=True)


def words(chunk) -> str:
    return (chunk.choices[0].delta.content or "") if chunk.choices else ""


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(scripts.breaks("cut", 3, TEXT), id="cut"),
        pytest.param(scripts.breaks("end", 3, TEXT), id="ends-without-finish"),
        pytest.param(scripts.breaks("stall", 3, TEXT), id="stall"),
        pytest.param(scripts.error_event(3, scripts.error("boom", "server_error"), TEXT), id="error-event"),
    ],
)
def test_a_break_after_the_first_word_raises_and_is_never_continued_by_another(line: Line, failure) -> None:
    line.primary.set(failure)
    seen = ""
    with pytest.raises(openai.APIError) as caught:
        for chunk in start(line):
            seen += words(chunk)
    assert not isinstance(caught.value, openai.APIConnectionError), "the stream must end with an error, not with a cut"
    assert seen and TEXT.startswith(seen), "what came before the break is the beginning of the one answer"
    assert caught.value.message
    assert b"[DONE]" not in line.relay.answers
    assert line.relay.answers.count(b'data: {"error"') == 1
    assert b'"terminal":"partial"' in line.relay.answers.replace(b" ", b"")
    assert (line.completions, line.primary.calls, line.standby.calls) == (1, 1, 0)


def test_the_stream_helper_raises_on_a_break_too(line: Line) -> None:
    line.primary.set(scripts.breaks("cut", 3, TEXT))
    with pytest.raises(openai.APIError):
        with line.client().chat.completions.stream(model=MODEL, messages=MESSAGES) as stream:
            stream.get_final_completion()
    assert (line.completions, line.standby.calls) == (1, 0)


def test_a_half_sent_tool_call_is_never_completed_by_another(line: Line) -> None:
    script = scripts.tool_call("pay", {"amount": 5, "to": "somebody with a long name", "note": "for the points"})
    line.primary.set(script | {"fault": {"cut": {"after": 2}}})
    line.standby.set(scripts.tool_call("pay", {"amount": 5}))
    tool = {"type": "function", "function": {"name": "pay", "parameters": {"type": "object", "properties": {}}}}
    with pytest.raises(openai.APIError):
        list(line.client().chat.completions.create(model=MODEL, messages=MESSAGES, tools=[tool], stream=True))
    assert (line.completions, line.primary.calls, line.standby.calls) == (1, 1, 0)


def test_heartbeats_before_a_slow_first_word_do_not_disturb_the_parser(open_line) -> None:
    """C028, C029: comments are nothing to this SDK's parser."""
    line = open_line(keepalive="1s", first_token="20s")
    line.primary.set(scripts.slow_first_token(2500, TEXT))
    raw = line.client().chat.completions.with_raw_response.create(model=MODEL, messages=MESSAGES, stream=True)
    assert raw.headers["x-pointsman-early"] == "true", "the stream was opened before anybody had answered"
    assert raw.headers["x-request-id"]
    assert "x-pointsman-target" not in raw.headers
    chunks = list(raw.parse())
    assert "".join(map(words, chunks)) == TEXT
    assert len(HEARTBEAT.findall(line.relay.answers)) >= 2
    told = [chunk.model_extra["pointsman"] for chunk in chunks if "pointsman" in (chunk.model_extra or {})]
    assert [one["target"] for one in told] == ["primary"], "who answered stands in the first event with output"
    assert (line.completions, line.primary.calls, line.standby.calls) == (1, 1, 0)


def test_failover_is_still_invisible_after_a_heartbeat(open_line) -> None:
    line = open_line(keepalive="1s", first_token="2500ms")
    line.primary.set(scripts.ROLE_ONLY)
    line.standby.set(scripts.answer(TEXT))
    chunks = list(start(line))
    assert "".join(map(words, chunks)) == TEXT
    assert HEARTBEAT.search(line.relay.answers)
    assert line.relay.answers.count(b"data: [DONE]") == 1
    assert (line.completions, line.primary.calls, line.standby.calls) == (1, 1, 1)


def test_an_error_after_a_heartbeat_is_raised_from_the_stream(open_line) -> None:
    """The status line has gone out as 200: the SDK can learn of the failure only from the stream itself."""
    line = open_line(keepalive="1s", first_token="1500ms")
    line.primary.set(scripts.ROLE_ONLY)
    line.standby.set(scripts.server_error(500))
    with pytest.raises(openai.APIError) as caught:
        list(start(line))
    assert caught.value.message
    assert b"[DONE]" not in line.relay.answers
    assert (line.completions, line.primary.calls, line.standby.calls) == (1, 1, 1)


def test_the_helper_reads_through_heartbeats(open_line) -> None:
    line = open_line(keepalive="1s", first_token="20s")
    line.primary.set(scripts.slow_first_token(1500, TEXT))
    with line.client().chat.completions.stream(model=MODEL, messages=MESSAGES) as stream:
        completion = stream.get_final_completion()
    assert completion.choices[0].message.content == TEXT
    assert HEARTBEAT.search(line.relay.answers)


def test_a_client_that_leaves_stops_the_provider(line: Line) -> None:
    line.primary.set(scripts.answer(" ".join(["word"] * 20_000)) | {"pace": {"between_tokens_ms": 10}})
    stream = start(line)
    for chunk in stream:
        if words(chunk):
            break
    stream.close()
    wait_for("the provider's stream is dropped", lambda: line.primary.state()["aborted"] == 1, within=5.0)
    assert (line.completions, line.primary.calls, line.standby.calls) == (1, 1, 0)


@pytest.mark.parametrize(
    "wire",
    [
        pytest.param({"line_end": "crlf"}, id="crlf"),
        pytest.param({"line_end": "cr"}, id="cr"),
        pytest.param({"bom": True}, id="bom"),
        pytest.param({"no_space_after_colon": True}, id="no-space"),
        pytest.param({"multi_line_data": True}, id="multi-line-data"),
        pytest.param({"comments": True}, id="comments"),
        pytest.param({"split_every_byte": True}, id="every-byte-alone"),
        pytest.param({"azure_preamble": True}, id="azure-preamble"),
        pytest.param({"done": False}, id="no-done"),
    ],
)
def test_however_a_provider_spells_its_stream_the_sdk_reads_every_word(line: Line, wire) -> None:
    text = "zwölf Boxkämpfer — ✓ 🚂 und noch fünf"
    line.primary.set(scripts.answer(text) | {"wire": wire})
    chunks = list(start(line))
    assert "".join(map(words, chunks)) == text
    assert (line.completions, line.primary.calls) == (1, 1)
    assert line.relay.answers.count(b"data: [DONE]") == 1
