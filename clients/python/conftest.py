"""Fixtures: two simulated providers, the gateway in front of them, and an official SDK in front of that.

Every test has processes of its own, so that no test inherits another's breakers, throttles or counters.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import anthropic
import openai
import pytest
from google import genai
from google.genai import types

from processes import HOST, KEY, Gateway, Settings, Sim
from relay import Relay

MODEL = "gpt-4o"
CLAUDE = "claude-opus-5-5"
GEMINI = "gemini-3-pro"
BEDROCK = "claude-at-bedrock"
GPT = "gpt-5.6"
"""The model whose targets are spoken to in Responses."""


@dataclass
class Line:
    """Everything of one test: what stands between the SDK and the providers, and how to look at it."""

    primary: Sim
    standby: Sim
    relay: Relay
    clients: list[genai.Client] = field(default_factory=list)

    @property
    def base_url(self) -> str:
        return f"http://{HOST}:{self.relay.port}/v1"

    @property
    def completions(self) -> int:
        """Requests that the SDK made to create a completion."""
        return sum("/chat/completions" in line for line in self.relay.requests)

    @property
    def messages(self) -> int:
        """Requests that the SDK made to create a message."""
        return sum("/messages" in line for line in self.relay.requests)

    @property
    def responses(self) -> int:
        """Requests that the SDK made to create a response."""
        return sum("/responses" in line for line in self.relay.requests)

    def client(self, key: str = KEY) -> openai.OpenAI:
        """The official SDK; only base URL and key are ours."""
        return openai.OpenAI(base_url=self.base_url, api_key=key)

    def async_client(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=self.base_url, api_key=KEY)

    def anthropic(self, key: str = KEY) -> anthropic.Anthropic:
        """Anthropic's official SDK; only base URL, which has no version in it, and key are ours."""
        return anthropic.Anthropic(base_url=f"http://{HOST}:{self.relay.port}", api_key=key)

    @property
    def generations(self) -> int:
        """Requests that the SDK made to generate content."""
        return sum("enerateContent" in line for line in self.relay.requests)

    def gemini(self, key: str = KEY) -> genai.Client:
        """Google's official SDK; only base URL, which has no version in it, and key are ours."""
        options = types.HttpOptions(base_url=f"http://{HOST}:{self.relay.port}")
        client = genai.Client(api_key=key, vertexai=False, http_options=options)
        # One that nobody holds closes its connections, even while its models are in use.
        self.clients.append(client)
        return client

    def async_anthropic(self) -> anthropic.AsyncAnthropic:
        return anthropic.AsyncAnthropic(base_url=f"http://{HOST}:{self.relay.port}", api_key=KEY)


@pytest.fixture(autouse=True)
def no_proxy_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's proxy settings and keys must not reach the SDK: all traffic is on loopback."""
    for name in list(os.environ):
        theirs = ("OPENAI_", "ANTHROPIC_", "GOOGLE_", "GEMINI_", "LANGCHAIN_", "LANGSMITH_")
        if name.upper() in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY") or name.startswith(theirs):
            monkeypatch.delenv(name)


@pytest.fixture
def open_line(tmp_path: Path) -> Iterator[Callable[..., Line]]:
    """Opens a line with given settings: `open_line(keepalive="1s")`."""
    with ExitStack() as stack:

        def open_line(**settings: object) -> Line:
            sims = Sim("primary", tmp_path), Sim("standby", tmp_path)
            for sim in sims:
                stack.callback(sim.stop)
            for sim in sims:
                sim.wait_until_ready()
            gateway = Gateway(*sims, Settings(**settings), tmp_path)
            stack.callback(gateway.stop)
            gateway.wait_until_ready()
            relay = Relay(gateway.port)
            stack.callback(relay.close)
            return Line(*sims, relay)

        yield open_line


@pytest.fixture
def line(open_line: Callable[..., Line]) -> Line:
    return open_line()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
    """A failed test shows what its processes said."""
    report = yield
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    if report.failed and folder is not None:
        for log in sorted(folder.glob("*.log")):
            report.sections.append((log.name, log.read_text(errors="replace")[-8000:]))
    return report
