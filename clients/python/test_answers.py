"""The everyday use of the SDK: create, stream, tools, models."""

from __future__ import annotations

import asyncio
import json

import openai
import pytest

import scripts
from conftest import BEDROCK, CLAUDE, GEMINI, GPT, MODEL, Line
from processes import KEY

MESSAGES = [{"role": "user", "content": "What is the weather in Paris?"}]
WEATHER_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather at a place.",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["c", "f"]}},
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
}
ARGUMENTS = {"city": "Paris — Île-de-France", "unit": "c"}


def text_of(chunks) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def test_a_completion_is_created(line: Line) -> None:
    line.primary.set(scripts.answer("The points are set."))
    completion = line.client().chat.completions.create(model=MODEL, messages=MESSAGES)
    assert completion.choices[0].message.content == "The points are set."
    assert completion.choices[0].message.role == "assistant"
    assert completion.choices[0].finish_reason == "stop"
    assert completion.object == "chat.completion"
    assert completion.usage is not None
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens
    assert completion.usage.completion_tokens > 0
    assert (line.completions, line.primary.calls, line.standby.calls) == (1, 1, 0)


def test_the_headers_say_who_answered(line: Line) -> None:
    raw = line.client().chat.completions.with_raw_response.create(model=MODEL, messages=MESSAGES)
    assert raw.headers["x-request-id"]
    assert raw.headers["x-pointsman-target"] == "primary"
    assert raw.headers["x-pointsman-model"] == MODEL
    assert raw.headers["x-pointsman-action"] == "primary"
    assert raw.headers["x-pointsman-attempts"] == "1"
    assert "x-pointsman-substituted" not in raw.headers
    assert raw.parse()._request_id == raw.headers["x-request-id"]


def test_the_model_in_the_body_is_the_providers_own(line: Line) -> None:
    line.primary.set(scripts.answer("hello", model="gpt-4o-2024-11-20"))
    completion = line.client().chat.completions.create(model=MODEL, messages=MESSAGES)
    assert completion.model == "gpt-4o-2024-11-20"


def test_a_stream_yields_every_word_in_order(line: Line) -> None:
    words = " ".join(f"word{number}" for number in range(200))
    line.primary.set(scripts.answer(words))
    chunks = list(line.client().chat.completions.create(model=MODEL, messages=MESSAGES, stream=True))
    assert text_of(chunks) == words
    assert [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason] == ["stop"]
    assert len({chunk.id for chunk in chunks}) == 1
    assert all(chunk.usage is None for chunk in chunks), "usage was not asked for"
    assert line.relay.answers.count(b"data: [DONE]") == 1
    assert line.completions == 1


def test_a_stream_reports_usage_once_when_asked(line: Line) -> None:
    line.primary.set(scripts.answer("one two three"))
    stream = line.client().chat.completions.create(
        model=MODEL, messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert text_of(chunks) == "one two three"
    with_usage = [chunk for chunk in chunks if chunk.usage is not None]
    assert len(with_usage) == 1
    assert with_usage[0] is chunks[-1], "usage comes last"
    assert with_usage[0].choices == []
    assert with_usage[0].usage.completion_tokens > 0


def test_the_stream_helper_accumulates_the_whole_answer(line: Line) -> None:
    line.primary.set(scripts.answer("one two three"))
    with line.client().chat.completions.stream(model=MODEL, messages=MESSAGES) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
        completion = stream.get_final_completion()
    assert "".join(deltas) == "one two three"
    assert completion.choices[0].message.content == "one two three"
    assert completion.choices[0].finish_reason == "stop"


def test_a_tool_call_arrives_whole(line: Line) -> None:
    line.primary.set(scripts.tool_call("get_weather", ARGUMENTS))
    completion = line.client().chat.completions.create(model=MODEL, messages=MESSAGES, tools=[WEATHER_TOOL])
    choice = completion.choices[0]
    assert choice.finish_reason == "tool_calls"
    [call] = choice.message.tool_calls
    assert (call.type, call.function.name) == ("function", "get_weather")
    assert json.loads(call.function.arguments) == ARGUMENTS
    assert call.id
    assert line.primary.calls == 1


def test_a_streamed_tool_call_arrives_in_fragments_that_make_one_call(line: Line) -> None:
    line.primary.set(scripts.tool_call("get_weather", ARGUMENTS))
    stream = line.client().chat.completions.create(model=MODEL, messages=MESSAGES, tools=[WEATHER_TOOL], stream=True)
    fragments = [part for chunk in stream if chunk.choices for part in chunk.choices[0].delta.tool_calls or []]
    assert [part.function.name for part in fragments if part.function.name] == ["get_weather"]
    assert len([part for part in fragments if part.id]) == 1
    assert {part.index for part in fragments} == {0}
    arguments = "".join(part.function.arguments or "" for part in fragments)
    assert json.loads(arguments) == ARGUMENTS
    assert line.primary.calls == 1


def test_the_stream_helper_accumulates_tool_calls(line: Line) -> None:
    line.primary.set(scripts.tool_call("get_weather", ARGUMENTS))
    with line.client().chat.completions.stream(model=MODEL, messages=MESSAGES, tools=[WEATHER_TOOL]) as stream:
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
        completion = stream.get_final_completion()
    assert [(event.name, json.loads(event.arguments)) for event in done] == [("get_weather", ARGUMENTS)]
    [call] = completion.choices[0].message.tool_calls
    assert (call.function.name, call.function.parsed_arguments) == ("get_weather", ARGUMENTS)
    assert completion.choices[0].finish_reason == "tool_calls"


def test_the_asynchronous_client_creates_and_streams(line: Line) -> None:
    line.primary.set(scripts.answer("one two three"))

    async def both() -> tuple[str | None, str]:
        async with line.async_client() as client:
            completion = await client.chat.completions.create(model=MODEL, messages=MESSAGES)
            stream = await client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True)
            return completion.choices[0].message.content, text_of([chunk async for chunk in stream])

    assert asyncio.run(both()) == ("one two three", "one two three")


def test_streams_at_the_same_time_do_not_mix(line: Line) -> None:
    line.primary.set(scripts.HEALTHY)
    texts = [" ".join([letter] * 50) for letter in "abcdefgh"]
    line.primary.enqueue(*(scripts.answer(text) | {"pace": {"between_tokens_ms": 2}} for text in texts))

    async def all_at_once() -> list[str]:
        async with line.async_client() as client:

            async def one() -> str:
                stream = await client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True)
                return text_of([chunk async for chunk in stream])

            return await asyncio.gather(*(one() for _ in texts))

    assert sorted(asyncio.run(all_at_once())) == texts


def test_a_conversation_reaches_the_provider_as_the_sdk_wrote_it(line: Line) -> None:
    line.client().chat.completions.create(
        model=MODEL,
        messages=[{"role": "system", "content": "Be brief. ü✓"}, *MESSAGES],
        temperature=0.1,
        extra_body={"a_field_nobody_knows": {"b": [1, 2.50, None]}},
    )
    [received] = [one for one in line.primary.received() if "/chat/completions" in one["path"]]
    assert received["method"] == "POST"
    assert received["body"] == {
        "model": MODEL,
        "messages": [{"role": "system", "content": "Be brief. ü✓"}, *MESSAGES],
        "temperature": 0.1,
        "a_field_nobody_knows": {"b": [1, 2.5, None]},
    }
    names = {name.lower() for name, _ in received["headers"]}
    assert not any(name.startswith("x-stainless-") for name in names)
    assert KEY[-4:] not in json.dumps(received), "the gateway's key must not reach a provider"


def test_the_models_that_the_key_may_use_are_listed(line: Line) -> None:
    models = line.client().models.list()
    assert {model.id for model in models} == {MODEL, CLAUDE, GEMINI, GPT, BEDROCK}
    assert all(model.object == "model" for model in models)


def test_an_unset_timeout_is_no_limit(line: Line) -> None:
    """Without a timeout of its own the SDK sends `NOT_GIVEN` or its default: neither may shorten the request to nothing."""
    client = openai.OpenAI(base_url=line.base_url, api_key=KEY, timeout=None)
    completion = client.chat.completions.create(model=MODEL, messages=MESSAGES)
    assert completion.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("prefix", ["", "/openai/v1"])
def test_base_urls_that_people_already_use_work(line: Line, prefix: str) -> None:
    base_url = line.base_url.removesuffix("/v1") + prefix
    client = openai.OpenAI(base_url=base_url, api_key=KEY)
    assert client.chat.completions.create(model=MODEL, messages=MESSAGES).choices[0].message.content
