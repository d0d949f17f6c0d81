"""LangChain's chat models, a loop with a tool each: Responses, Chat Completions and Messages, in front of every kind of provider."""

from __future__ import annotations

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

import scripts
from conftest import CLAUDE, GPT, MODEL, Line
from processes import HOST, KEY

TEXT = "one two three four five six seven eight"
ARGUMENTS = {"city": "Paris — Île-de-France"}


@tool
def get_weather(city: str) -> str:
    """The weather at a place."""
    return f"rain in {city}"


def responses(line: Line, model: str) -> BaseChatModel:
    return ChatOpenAI(base_url=line.base_url, api_key=KEY, model=model, use_responses_api=True, output_version="responses/v1")


def chat(line: Line, model: str) -> BaseChatModel:
    return ChatOpenAI(base_url=line.base_url, api_key=KEY, model=model, use_responses_api=False)


def messages(line: Line, model: str) -> BaseChatModel:
    return ChatAnthropic(base_url=f"http://{HOST}:{line.relay.port}", api_key=KEY, model=model, max_tokens=1024)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", [GPT, CLAUDE, MODEL], ids=["responses", "messages", "chat"])
@pytest.mark.parametrize("client", [responses, chat, messages])
def test_a_loop_with_a_tool(line: Line, client, model: str, stream: bool) -> None:
    line.primary.enqueue(scripts.tool_call("get_weather", ARGUMENTS), scripts.answer(TEXT))
    asked = client(line, model).bind_tools([get_weather])

    def turn(conversation: list):
        if not stream:
            return asked.invoke(conversation)
        first, *rest = asked.stream(conversation)
        return sum(rest, start=first)

    conversation = [HumanMessage("What is the weather in Paris?")]
    answer = turn(conversation)
    [call] = answer.tool_calls
    assert (call["name"], call["args"]) == ("get_weather", ARGUMENTS)
    conversation += [answer, ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])]
    assert turn(conversation).text == TEXT
    assert (line.primary.calls, line.standby.calls) == (2, 0)
