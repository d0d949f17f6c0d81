"""Each official SDK in front of providers of the other dialect: what it gets is its own dialect's, whole and well-formed."""

from __future__ import annotations

import json

import anthropic
import openai
import pytest

import scripts
from conftest import CLAUDE, MODEL, Line

QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]
TEXT = "one two three four five six seven eight"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ARGUMENTS = {"city": "Paris — Île-de-France"}

both_ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def complete(line: Line, stream: bool, **more):
    """A chat completion by an Anthropic provider; a stream is gathered by the SDK's own helper."""
    client = line.client()
    if not stream:
        return client.chat.completions.create(model=CLAUDE, messages=QUESTION, **more)
    with client.chat.completions.stream(
        model=CLAUDE, messages=QUESTION, stream_options={"include_usage": True}, **more
    ) as events:
        return events.get_final_completion()


def create(line: Line, stream: bool, **more):
    """A message by an OpenAI provider."""
    ask = {"model": MODEL, "max_tokens": 1024, "messages": QUESTION} | more
    client = line.anthropic()
    if not stream:
        return client.messages.create(**ask)
    with client.messages.stream(**ask) as events:
        return events.get_final_message()


def path_of(line: Line) -> str:
    return line.primary.received()[-1]["path"]


@both_ways
def test_the_openai_sdk_is_answered_by_an_anthropic_provider(line: Line, stream: bool) -> None:
    line.primary.set(scripts.answer(TEXT, reasoning={"text": "first this", "field": "thinking"}))
    completion = complete(line, stream)
    [choice] = completion.choices
    assert (choice.message.content, choice.finish_reason) == (TEXT, "stop")
    assert choice.message.role == "assistant"
    assert completion.usage.prompt_tokens > 0
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens
    assert path_of(line).endswith("/messages")


@both_ways
def test_the_openai_sdk_gets_tool_calls_whole(line: Line, stream: bool) -> None:
    line.primary.set(scripts.tool_call("get_weather", ARGUMENTS))
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}
    [choice] = complete(line, stream, tools=[tool]).choices
    assert choice.finish_reason == "tool_calls"
    [call] = choice.message.tool_calls
    assert call.id and call.function.name == "get_weather"
    assert json.loads(call.function.arguments) == ARGUMENTS


@both_ways
def test_the_anthropic_sdk_is_answered_by_an_openai_provider(line: Line, stream: bool) -> None:
    line.primary.set(scripts.answer(TEXT, reasoning={"text": "first this", "field": "reasoning_content"}))
    message = create(line, stream, system="Be brief.")
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert (message.content[0].thinking, message.content[1].text) == ("first this", TEXT)
    assert (message.role, message.stop_reason) == ("assistant", "end_turn")
    # A compatible server of any kind is not asked for the usage of a stream: it might refuse the unknown field.
    if not stream:
        assert message.usage.input_tokens > 0 and message.usage.output_tokens > 0
    assert path_of(line).endswith("/chat/completions")


@both_ways
def test_the_anthropic_sdk_does_two_turns_with_a_tool(line: Line, stream: bool) -> None:
    line.primary.set(scripts.tool_call("get_weather", ARGUMENTS))
    tool = {"name": "get_weather", "description": "The weather.", "input_schema": SCHEMA}
    first = create(line, stream, tools=[tool])
    assert first.stop_reason == "tool_use"
    [call] = [block for block in first.content if block.type == "tool_use"]
    assert (call.name, call.input) == ("get_weather", ARGUMENTS)
    line.primary.set(scripts.answer(TEXT))
    turns = [
        *QUESTION,
        {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in first.content]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "rain"}]},
    ]
    second = create(line, stream, tools=[tool], messages=turns)
    assert second.content[-1].text == TEXT
    sent = line.primary.received()[-1]["body"]
    turns = (json.loads(sent) if isinstance(sent, str) else sent)["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "tool"]


def test_a_failure_before_the_first_word_is_not_seen(line: Line) -> None:
    line.primary.set(scripts.anthropic_status(529, "overloaded_error", "Overloaded"))
    line.standby.set(scripts.answer(TEXT))
    assert complete(line, True).choices[0].message.content == TEXT
    line.primary.set(scripts.server_error(503))
    assert create(line, True).content[-1].text == TEXT


def test_a_break_after_it_is_one_error_of_the_sdk(line: Line) -> None:
    line.primary.set(scripts.breaks("cut", 3, TEXT))
    with pytest.raises(openai.APIError), line.client().chat.completions.stream(model=CLAUDE, messages=QUESTION) as events:
        events.get_final_completion()
    with pytest.raises(anthropic.APIError):
        create(line, True)
    assert line.standby.calls == 0


def test_what_cannot_be_said_is_a_bad_request(line: Line) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        line.client().chat.completions.create(model=CLAUDE, messages=QUESTION, n=2)
    assert refused.value.param == "n"
    assert line.primary.calls == 0
