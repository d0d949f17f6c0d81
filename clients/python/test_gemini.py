"""Google's official SDK: what it reads of the gateway, in front of providers of its own dialect and of the others."""

from __future__ import annotations

import pytest
from google.genai import errors, types

import scripts
from conftest import BEDROCK, CLAUDE, GEMINI, GPT, MODEL, Line

QUESTION = "What is the weather in Paris?"
TEXT = "one two three four five six seven eight"
ARGUMENTS = {"city": "Paris — Île-de-France"}
TOOL = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(
            name="get_weather",
            description="The weather.",
            parameters=types.Schema(type="OBJECT", properties={"city": types.Schema(type="STRING")}),
        )
    ]
)

both_ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
each_provider = pytest.mark.parametrize("model", [GEMINI, MODEL, CLAUDE])


def generate(line: Line, model: str, stream: bool, contents: object = QUESTION, **config: object):
    """All that was answered, a stream as its chunks."""
    models = line.gemini().models
    ask = {"model": model, "contents": contents, "config": types.GenerateContentConfig(**config)}
    return list(models.generate_content_stream(**ask)) if stream else [models.generate_content(**ask)]


def parts(answers: list[types.GenerateContentResponse]) -> list[types.Part]:
    return [part for answer in answers for part in answer.candidates[0].content.parts or []]


def text(answers: list[types.GenerateContentResponse]) -> str:
    return "".join(part.text or "" for part in parts(answers) if not part.thought)


@each_provider
@both_ways
def test_the_sdk_gets_a_whole_answer(line: Line, model: str, stream: bool) -> None:
    line.primary.set(scripts.answer(TEXT))
    answers = generate(line, model, stream, system_instruction="Be brief.", max_output_tokens=100)
    assert text(answers) == TEXT
    assert answers[-1].candidates[0].finish_reason == types.FinishReason.STOP
    # A compatible server of any kind is not asked for the usage of a stream: it might refuse the unknown field.
    if not (stream and model == MODEL):
        usage = answers[-1].usage_metadata
        assert usage.prompt_token_count > 0 and usage.candidates_token_count > 0
    assert line.generations == 1


@each_provider
@both_ways
def test_the_sdk_reads_thoughts(line: Line, model: str, stream: bool) -> None:
    line.primary.set(scripts.answer(TEXT, reasoning={"text": "first this", "field": "reasoning_content"}))
    answers = generate(line, model, stream)
    assert "".join(part.text for part in parts(answers) if part.thought and part.text) == "first this"
    assert text(answers) == TEXT


@each_provider
@both_ways
def test_the_sdk_does_two_turns_with_a_tool(line: Line, model: str, stream: bool) -> None:
    line.primary.set(scripts.tool_call("get_weather", ARGUMENTS))
    automatic = types.AutomaticFunctionCallingConfig(disable=True)
    first = generate(line, model, stream, tools=[TOOL], automatic_function_calling=automatic)
    [call] = [part.function_call for part in parts(first) if part.function_call]
    assert (call.name, call.args) == ("get_weather", ARGUMENTS)
    line.primary.set(scripts.answer(TEXT))
    result = types.FunctionResponse(id=call.id, name=call.name, response={"output": "rain"})
    contents = [
        types.Content(role="user", parts=[types.Part(text=QUESTION)]),
        types.Content(role="model", parts=parts(first)),
        types.Content(role="user", parts=[types.Part(function_response=result)]),
    ]
    second = generate(line, model, stream, contents, tools=[TOOL], automatic_function_calling=automatic)
    assert text(second) == TEXT


@each_provider
def test_the_sdk_calls_a_function_by_itself(line: Line, model: str) -> None:
    asked: list[str] = []

    def get_weather(city: str) -> str:
        """The weather of a city."""
        asked.append(city)
        return "rain"

    line.primary.enqueue(scripts.tool_call("get_weather", ARGUMENTS), scripts.answer(TEXT))
    [answer] = generate(line, model, False, tools=[get_weather])
    assert (asked, answer.text) == ([ARGUMENTS["city"]], TEXT)


@each_provider
def test_a_conversation_of_the_sdk_goes_on_elsewhere(line: Line, model: str) -> None:
    line.primary.set(scripts.answer(TEXT, reasoning={"text": "first this", "field": "reasoning_content"}))
    chat = line.gemini().chats.create(model=model)
    assert "".join(chunk.text or "" for chunk in chat.send_message_stream(QUESTION)) == TEXT
    for other in (GEMINI, MODEL, CLAUDE):
        going_on = line.gemini().chats.create(model=other, history=chat.get_history())
        assert going_on.send_message("And in Rome?").text == TEXT


@each_provider
def test_a_stream_that_is_kept_alive_is_read(open_line, model: str) -> None:
    line = open_line(keepalive="100ms", first_token="10s")
    line.primary.set(scripts.slow_first_token(700, TEXT))
    assert text(generate(line, model, True)) == TEXT


@each_provider
@both_ways
def test_a_failure_before_the_first_word_is_not_seen(line: Line, model: str, stream: bool) -> None:
    line.primary.set(scripts.SILENCE if stream else scripts.server_error(503))
    line.standby.set(scripts.answer(TEXT))
    assert text(generate(line, model, stream)) == TEXT
    assert line.generations == 1


@each_provider
def test_a_break_after_it_is_an_error_of_the_sdk(line: Line, model: str) -> None:
    line.primary.set(scripts.breaks("cut", 3, TEXT))
    with pytest.raises(errors.APIError) as broken:
        generate(line, model, True)
    assert (broken.value.code, broken.value.status) == (503, "UNAVAILABLE")
    assert line.standby.calls == 0


def test_the_gateways_errors_are_the_sdks(line: Line) -> None:
    with pytest.raises(errors.ClientError) as refused:
        line.gemini("wrong").models.generate_content(model=GEMINI, contents=QUESTION)
    assert (refused.value.code, refused.value.status) == (401, "UNAUTHENTICATED")
    with pytest.raises(errors.ClientError) as unknown:
        generate(line, "gpt-4o-private", False)
    assert (unknown.value.code, unknown.value.status) == (403, "PERMISSION_DENIED")
    line.primary.set(scripts.server_error(503))
    line.standby.set(scripts.server_error(503))
    with pytest.raises(errors.ServerError) as exhausted:
        generate(line, GEMINI, True)
    assert (exhausted.value.code, exhausted.value.status) == (503, "UNAVAILABLE")
    assert exhausted.value.details["error"]["details"][0]["terminal"] == "exhausted"


def test_the_sdk_lists_the_models(line: Line) -> None:
    names = [model.name for model in line.gemini().models.list()]
    assert sorted(names) == sorted(f"models/{name}" for name in (MODEL, CLAUDE, GEMINI, GPT, BEDROCK))


async def stream_of(line: Line, model: str) -> str:
    stream = await line.gemini().aio.models.generate_content_stream(model=model, contents=QUESTION)
    return "".join([chunk.text or "" async for chunk in stream])


@each_provider
def test_the_asynchronous_client_reads_the_same(line: Line, model: str) -> None:
    import asyncio

    line.primary.set(scripts.answer(TEXT))
    assert asyncio.run(stream_of(line, model)) == TEXT
