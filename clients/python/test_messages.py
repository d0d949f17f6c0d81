"""Anthropic's official SDK: create, stream, tools, its exception classes, failover before the first word, and one honest
error after it."""

from __future__ import annotations

import asyncio
import json
import re

import anthropic
import pytest

import scripts
from conftest import BEDROCK, CLAUDE, GEMINI, GPT, MODEL, Line
from processes import KEY, PRIMARY_KEY

MESSAGES = [{"role": "user", "content": "What is the weather in Paris?"}]
TEXT = "one two three four five six seven eight"
TOOL = {
    "name": "get_weather",
    "description": "The weather at a place.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
ARGUMENTS = {"city": "Paris — Île-de-France"}
ASK = {"model": CLAUDE, "max_tokens": 1024, "messages": MESSAGES}

OVERLOADED = scripts.anthropic_status(529, "overloaded_error", "Overloaded")
API_ERROR = scripts.anthropic_status(500, "api_error", "Internal server error")
SPENT = scripts.anthropic_status(
    400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."
)


def rate_limit(retry_after: int) -> scripts.Script:
    text = "This request would exceed your organization's rate limit."
    return scripts.anthropic_status(429, "rate_limit_error", text, {"retry-after": str(retry_after)})


def create(line: Line, stream: bool = False, **more):
    """Creates a message; a stream is read to its end by the SDK's helper, so that an error inside it shows too."""
    client = line.anthropic()
    if not stream:
        return client.messages.create(**(ASK | more))
    with client.messages.stream(**(ASK | more)) as stream_of_events:
        return stream_of_events.get_final_message()


def text_of(message: anthropic.types.Message) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def assert_is_ours(error: anthropic.APIStatusError) -> None:
    """An error of the gateway: JSON in the SDK's shape, with the request id in header and body, and no secret."""
    assert error.response.headers["content-type"].startswith("application/json")
    whole = error.response.json()
    assert whole["type"] == "error" and set(whole["error"]) >= {"message", "type"}
    assert error.request_id, "the SDK reads the header request-id"
    assert whole["request_id"] == whole["pointsman"]["request_id"] == error.request_id
    assert KEY not in json.dumps(whole)


both_ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@both_ways
def test_a_message_is_created(line: Line, stream: bool) -> None:
    line.primary.set(scripts.answer(TEXT))
    message = create(line, stream)
    assert text_of(message) == TEXT
    assert (message.role, message.stop_reason, message.model) == ("assistant", "end_turn", CLAUDE)
    assert message.usage.input_tokens > 0 and message.usage.output_tokens == 8
    assert (line.messages, line.primary.calls, line.standby.calls) == (1, 1, 0)


def test_the_stream_yields_every_word_in_order(line: Line) -> None:
    words = " ".join(f"word{number}" for number in range(200))
    line.primary.set(scripts.answer(words))
    with line.anthropic().messages.stream(**ASK) as stream:
        assert "".join(stream.text_stream) == words
    kinds = [event.type for event in line.anthropic().messages.create(**ASK, stream=True)]
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")
    assert kinds.count("message_start") == kinds.count("message_stop") == 1
    assert line.messages == 2


@both_ways
def test_a_tool_call_arrives_whole(line: Line, stream: bool) -> None:
    line.primary.set(scripts.tool_call("get_weather", ARGUMENTS))
    message = create(line, stream, tools=[TOOL])
    assert message.stop_reason == "tool_use"
    [call] = [block for block in message.content if block.type == "tool_use"]
    assert (call.name, call.input) == ("get_weather", ARGUMENTS)
    assert call.id
    assert line.primary.calls == 1


@both_ways
def test_signed_thinking_arrives_with_its_signature(line: Line, stream: bool) -> None:
    line.primary.set(scripts.answer(TEXT, reasoning={"text": "first this", "field": "thinking"}))
    message = create(line, stream)
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert (message.content[0].thinking, text_of(message)) == ("first this", TEXT)
    assert message.content[0].signature


def test_the_headers_say_who_answered(line: Line) -> None:
    raw = line.anthropic().messages.with_raw_response.create(**ASK)
    assert raw.parse()._request_id == raw.headers["request-id"]
    assert raw.headers["request-id"] == raw.headers["x-request-id"]
    assert raw.headers["x-pointsman-target"] == "claude"
    assert raw.headers["x-pointsman-attempts"] == "1"


def test_the_provider_gets_the_clients_version_and_never_its_key(line: Line) -> None:
    line.anthropic().messages.create(**ASK, extra_headers={"anthropic-beta": "not-known-yet-2031-01-01"})
    [received] = [one for one in line.primary.received() if "/messages" in one["path"]]
    headers = {name.lower(): value for name, value in received["headers"]}
    assert headers["anthropic-version"] == "2026-10-21"
    assert headers["anthropic-beta"] == "not-known-yet-2031-01-01"
    assert headers["x-api-key"].endswith(PRIMARY_KEY[-4:])
    assert "authorization" not in headers and KEY[-4:] not in json.dumps(received)


def test_the_asynchronous_client_creates_and_streams(line: Line) -> None:
    line.primary.set(scripts.answer(TEXT))

    async def both() -> list[str]:
        async with line.async_anthropic() as client:
            whole = text_of(await client.messages.create(**ASK))
            async with client.messages.stream(**ASK) as stream:
                return [whole, "".join([text async for text in stream.text_stream])]

    assert asyncio.run(both()) == [TEXT, TEXT]


def test_models_are_listed_in_the_sdks_shape(line: Line) -> None:
    models = list(line.anthropic().models.list())
    assert {(model.type, model.id) for model in models} == {("model", name) for name in (CLAUDE, MODEL, GEMINI, GPT, BEDROCK)}
    assert line.anthropic().models.retrieve(CLAUDE).display_name


# Errors


@both_ways
def test_a_bad_request_keeps_the_providers_words(line: Line, stream: bool) -> None:
    said = "messages.0.content: Field required"
    line.primary.set(scripts.anthropic_status(400, "invalid_request_error", said))
    with pytest.raises(anthropic.BadRequestError) as caught:
        create(line, stream)
    assert caught.value.type == "invalid_request_error"
    assert said in caught.value.message
    assert_is_ours(caught.value)
    assert (line.messages, line.primary.calls, line.standby.calls) == (1, 1, 0)


def test_too_long_a_prompt_is_the_requests_own_fault(line: Line) -> None:
    fault = scripts.anthropic_status(400, "invalid_request_error", "prompt is too long: 209303 tokens > 200000 maximum")
    line.primary.set(fault)
    line.standby.set(fault)
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long: 209303 tokens > 200000 maximum"):
        create(line)
    assert line.messages == 1


def test_a_wrong_gateway_key_is_an_authentication_error(line: Line) -> None:
    with pytest.raises(anthropic.AuthenticationError) as caught:
        line.anthropic(key="pk-wrong").messages.create(**ASK)
    assert caught.value.type == "authentication_error"
    assert_is_ours(caught.value)
    assert (line.messages, line.primary.calls) == (1, 0)


def test_an_unknown_model_is_not_found_and_a_close_name_is_named(line: Line) -> None:
    with pytest.raises(anthropic.NotFoundError, match=CLAUDE) as caught:
        create(line, model="claude-opus-5")
    assert caught.value.type == "not_found_error"
    assert_is_ours(caught.value)
    assert (line.messages, line.primary.calls) == (1, 0)


def test_a_model_that_the_key_may_not_use_is_a_permission_error(line: Line) -> None:
    with pytest.raises(anthropic.PermissionDeniedError) as caught:
        create(line, model="gpt-4o-private")
    assert caught.value.type == "permission_error"
    assert (line.messages, line.standby.calls) == (1, 0)


@pytest.mark.parametrize(
    ("first", "second", "raised", "status", "kind"),
    [
        pytest.param(rate_limit(30), rate_limit(20), anthropic.RateLimitError, 429, "rate_limit_error", id="429"),
        pytest.param(OVERLOADED, OVERLOADED, anthropic.OverloadedError, 529, "overloaded_error", id="529"),
        pytest.param(API_ERROR, OVERLOADED, anthropic.OverloadedError, 529, "overloaded_error", id="500-529"),
        pytest.param(SPENT, SPENT, anthropic.PaymentRequiredError, 402, "billing_error", id="spent"),
        pytest.param(scripts.HTML, scripts.NO_CHOICES, anthropic.InternalServerError, 500, "api_error", id="no-answer"),
    ],
)
def test_when_every_target_fails_the_sdk_asks_once(line: Line, first, second, raised, status, kind) -> None:
    line.primary.set(first)
    line.standby.set(second)
    with pytest.raises(raised) as caught:
        create(line, stream=True)
    error = caught.value
    assert (error.status_code, error.type) == (status, kind)
    assert error.response.headers["x-should-retry"] == "false"
    assert_is_ours(error)
    assert (line.messages, line.primary.calls, line.standby.calls) == (1, 1, 1)


def test_silence_of_every_target_is_a_timeout_and_asked_once(open_line) -> None:
    line = open_line(first_token="500ms", response="500ms")
    line.primary.set(scripts.SILENCE)
    line.standby.set(scripts.SILENCE)
    with pytest.raises(anthropic.GatewayTimeoutError) as caught:
        create(line)
    assert (caught.value.status_code, caught.value.type) == (504, "timeout_error")
    assert line.messages == 1


# Failover

FAILURES = {
    "reset-before-headers": scripts.RESET_BEFORE_HEADERS,
    "529": OVERLOADED,
    "500": API_ERROR,
    "429": rate_limit(30),
    "spent": SPENT,
    "cut-before-output": scripts.breaks("cut", 0, "never seen"),
    "overloaded-event": scripts.anthropic_error_event(0, "overloaded_error", "Overloaded"),
    "html": scripts.HTML,
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES.keys())
def test_failover_is_invisible_in_a_stream(line: Line, failure) -> None:
    line.primary.set(failure)
    line.standby.set(scripts.answer(TEXT))
    assert text_of(create(line, stream=True)) == TEXT
    assert (line.messages, line.primary.calls, line.standby.calls) == (1, 1, 1)
    assert b"event: error" not in line.relay.answers
    assert line.relay.answers.count(b"event: message_start") == 1
    assert line.relay.answers.count(b"event: message_stop") == 1


@pytest.mark.parametrize("failure", [OVERLOADED, scripts.breaks("cut", 3, TEXT)], ids=["529", "cut"])
def test_failover_is_invisible_in_a_whole_answer(line: Line, failure) -> None:
    line.primary.set(failure)
    line.standby.set(scripts.answer(TEXT))
    assert text_of(create(line)) == TEXT
    assert (line.messages, line.primary.calls, line.standby.calls) == (1, 1, 1)


def test_a_tool_call_survives_failover_exactly_once(line: Line) -> None:
    line.primary.set(scripts.tool_call("get_weather", ARGUMENTS) | {"fault": {"cut": {"after": 0}}})
    line.standby.set(scripts.tool_call("get_weather", ARGUMENTS))
    message = create(line, stream=True, tools=[TOOL])
    assert [block.name for block in message.content if block.type == "tool_use"] == ["get_weather"]
    assert (line.messages, line.primary.calls, line.standby.calls) == (1, 1, 1)


# After the first word


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(scripts.breaks("cut", 3, TEXT), id="cut"),
        pytest.param(scripts.breaks("end", 3, TEXT), id="ends-without-message-stop"),
        pytest.param(scripts.anthropic_error_event(3, "overloaded_error", "Overloaded", TEXT), id="error-event"),
    ],
)
def test_a_break_after_the_first_word_raises_and_is_never_continued_by_another(line: Line, failure) -> None:
    line.primary.set(failure)
    line.standby.set(scripts.answer("another answer"))
    seen = ""
    with pytest.raises(anthropic.APIStatusError) as caught:
        with line.anthropic().messages.stream(**ASK) as stream:
            for text in stream.text_stream:
                seen += text
    assert seen and TEXT.startswith(seen), "what came before the break is the beginning of the one answer"
    assert caught.value.type == "api_error"
    assert line.relay.answers.count(b"event: error") == 1
    assert b"message_stop" not in line.relay.answers
    assert (line.messages, line.primary.calls, line.standby.calls) == (1, 1, 0)


# Heartbeats


def test_heartbeats_before_and_after_message_start_do_not_disturb_the_parser(open_line) -> None:
    """C028: comments and pings are nothing to this SDK's parser."""
    line = open_line(keepalive="300ms", first_token="20s", idle="20s")
    pause = {"pause": {"after": 3, "for_ms": 1000}}
    line.primary.set(scripts.slow_first_token(1000, TEXT) | {"fault": pause})
    message = create(line, stream=True)
    assert text_of(message) == TEXT
    before, after = line.relay.answers.split(b"event: message_start", 1)
    assert len(re.findall(rb"(?m)^:[^\n]*\n", before)) >= 2 and b"event: ping" not in before
    assert after.count(b"event: ping") >= 2, "the provider's own and ours"
    assert message.model_extra["pointsman"]["target"] == "claude"
    assert line.messages == 1


def test_an_error_after_a_heartbeat_is_raised_from_the_stream(open_line) -> None:
    line = open_line(keepalive="300ms", first_token="800ms")
    line.primary.set(scripts.ROLE_ONLY)
    line.standby.set(OVERLOADED)
    with pytest.raises(anthropic.APIStatusError) as caught:
        create(line, stream=True)
    assert caught.value.message
    assert b"message_start" not in line.relay.answers
    assert (line.messages, line.primary.calls, line.standby.calls) == (1, 1, 1)
