"""The real processes of a test: simulated providers and the gateway, on free ports, taken down at the end."""

from __future__ import annotations

import hashlib
import http.client
import itertools
import json
import os
import random
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
KEY = "pk-python-suite-Zq7v"
"""The gateway key of every test; the configuration holds its hash only."""

PRIMARY_KEY, STANDBY_KEY = "sk-primary-Aa1A", "sk-standby-Bb2B"
"""What the gateway shows to its providers; they repeat the last four characters of what they were shown."""

READY_WITHIN = 20.0
"""Seconds that a process may take until it answers; far more than it needs, for a busy machine."""


FIRST_PORT, PORTS = 20_000, 12_000
"""Below the range from which systems take ports for outgoing connections."""

_turn = itertools.count(random.randrange(PORTS))


def free_port() -> int:
    """A port that nothing listens on and that was not given before, so that two processes of a test never get the same:
    until the process listens (and after it was killed) no connection of another test can take it by chance."""
    while True:
        port = FIRST_PORT + next(_turn) % PORTS
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        return port


def call(port: int, method: str, path: str, body: Any = None, timeout: float = 10.0) -> tuple[int, bytes]:
    """One plain HTTP request on a connection of its own."""
    connection = http.client.HTTPConnection(HOST, port, timeout=timeout)
    try:
        headers = {} if body is None else {"content-type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def wait_for(what: str, holds, within: float = READY_WITHIN) -> None:
    """Returns once `holds()` is true; fails the test when it is not in time."""
    until = time.monotonic() + within
    while not holds():
        if time.monotonic() > until:
            raise AssertionError(f"not within {within:.0f} s: {what}")
        time.sleep(0.02)


class Process:
    """A child process that has a port, a readiness path and a log file."""

    def __init__(self, arguments: list[str], port: int, ready_path: str, log: Path) -> None:
        self.port = port
        self.log = log
        self._ready_path = ready_path
        self._must_run = False
        binary = os.environ.get("POINTSMAN_BIN")
        if not binary:
            raise RuntimeError("POINTSMAN_BIN must name the gateway's binary: run `cargo xtask test`")
        # The binary reads provider keys and proxies from the environment: a test brings its own or none.
        environment = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        with log.open("wb") as output:
            self._child = subprocess.Popen(
                [binary, *arguments], stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
            )

    def wait_until_ready(self) -> None:
        wait_for(f"{self._ready_path} of {self.log.name} answers 200", self._is_ready)
        self._must_run = True

    def _is_ready(self) -> bool:
        if self._child.poll() is not None:
            text = self.log.read_text(errors="replace")
            raise AssertionError(f"{self.log.name} ended with {self._child.returncode} before it was ready:\n{text}")
        try:
            return call(self.port, "GET", self._ready_path, timeout=2.0)[0] == 200
        except OSError:
            return False

    def kill(self) -> None:
        """Ends the process at once: from now on its port refuses connections."""
        self._must_run = False
        self._child.kill()
        self._child.wait()

    def stop(self) -> None:
        """Takes the process down at the end of a test; one that has ended by itself fails the test."""
        ended = self._child.poll() if self._must_run else None
        self.kill()
        if ended is not None:
            raise AssertionError(f"{self.log.name} ended by itself with {ended}")


class Sim(Process):
    """A simulated provider, steered through its control endpoint."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        port = free_port()
        arguments = ["sim", "--listen", f"{HOST}:{port}", "--name", name]
        super().__init__(arguments, port, "/_sim/state", folder / f"{name}.log")

    def set(self, script: dict[str, Any]) -> None:
        """Answers every request from now on by this script."""
        self._control("PUT", "/_sim/script", script)

    def enqueue(self, *scripts: dict[str, Any]) -> None:
        """Answers the next requests by these scripts, one each."""
        self._control("POST", "/_sim/enqueue", list(scripts))

    @property
    def calls(self) -> int:
        return self.state()["calls"]

    def state(self) -> dict[str, Any]:
        return json.loads(self._control("GET", "/_sim/state"))

    def received(self) -> list[dict[str, Any]]:
        return json.loads(self._control("GET", "/_sim/received"))

    def _control(self, method: str, path: str, body: Any = None) -> bytes:
        status, answer = call(self.port, method, path, body)
        if status >= 300:
            raise AssertionError(f"{self.name}: {method} {path} answered {status}: {answer.decode(errors='replace')}")
        return answer


@dataclass(frozen=True)
class Settings:
    """What a test sets otherwise than the product's defaults: short limits, so that it need not wait for long ones."""

    first_token: str = "2s"
    response: str = "2s"
    idle: str = "2s"
    deadline: str = "30s"
    same_target_attempts: int = 1
    keepalive: str = "15s"
    provider_keys: bool = True
    """Whether the providers are asked with a key each, or with none, as servers of one's own often are."""


class Gateway(Process):
    """`pointsman serve` in front of two simulated providers, `primary` asked before `standby`: as OpenAI-compatible targets
    of one model, as Anthropic targets of another, as Gemini targets of a third, as OpenAI's own, spoken to in Responses,
    of a fourth, and as Bedrock's of a fifth."""

    def __init__(self, primary: Sim, standby: Sim, settings: Settings, folder: Path) -> None:
        port = free_port()
        file = folder / "pointsman.yaml"
        file.write_text(configuration(port, free_port(), primary.port, standby.port, settings))
        super().__init__(["serve", "--config", str(file)], port, "/readyz", folder / "gateway.log")


def configuration(listen: int, admin: int, primary: int, standby: int, settings: Settings) -> str:
    keys = [f', api_key: "{key}"' if settings.provider_keys else "" for key in (PRIMARY_KEY, STANDBY_KEY)]
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    return f"""\
server: {{ listen: "{HOST}:{listen}", keepalive: {settings.keepalive} }}
admin: {{ listen: "{HOST}:{admin}" }}
targets:
  primary: {{ provider: openai-compatible, base_url: "http://{HOST}:{primary}/v1", model: gpt-4o, priority: 1{keys[0]} }}
  standby: {{ provider: openai-compatible, base_url: "http://{HOST}:{standby}/v1", model: gpt-4o, priority: 2{keys[1]} }}
  claude: {{ provider: anthropic, base_url: "http://{HOST}:{primary}", model: claude-opus-5-5, priority: 1, api_key: "{PRIMARY_KEY}" }}
  claude-standby: {{ provider: anthropic, base_url: "http://{HOST}:{standby}", model: claude-opus-5-5, priority: 2, api_key: "{STANDBY_KEY}" }}
  gemini: {{ provider: gemini, base_url: "http://{HOST}:{primary}", model: gemini-3-pro, priority: 1, api_key: "{PRIMARY_KEY}" }}
  gemini-standby: {{ provider: gemini, base_url: "http://{HOST}:{standby}", model: gemini-3-pro, priority: 2, api_key: "{STANDBY_KEY}" }}
  responses: {{ provider: openai, dialect: responses, base_url: "http://{HOST}:{primary}/v1", model: gpt-5.6, priority: 1, api_key: "{PRIMARY_KEY}" }}
  responses-standby: {{ provider: openai, dialect: responses, base_url: "http://{HOST}:{standby}/v1", model: gpt-5.6, priority: 2, api_key: "{STANDBY_KEY}" }}
  bedrock: {{ provider: bedrock, region: us-east-1, base_url: "http://{HOST}:{primary}", model: claude-at-bedrock, upstream_model: "us.anthropic.claude-sonnet-4-5-20250929-v1:0", priority: 1, api_key: "{PRIMARY_KEY}" }}
  bedrock-standby: {{ provider: bedrock, region: us-east-1, base_url: "http://{HOST}:{standby}", model: claude-at-bedrock, upstream_model: "us.anthropic.claude-sonnet-4-5-20250929-v1:0", priority: 2, api_key: "{STANDBY_KEY}" }}
  private: {{ provider: openai-compatible, base_url: "http://{HOST}:{standby}/v1", model: gpt-4o-private }}
keys:
  python-suite: {{ hash: "sha256:{digest}", models: [gpt-4o, claude-opus-5-5, gemini-3-pro, gpt-5.6, claude-at-bedrock] }}
defaults:
  budget:
    deadline: {settings.deadline}
    max_same_target_attempts: {settings.same_target_attempts}
    connect: 2s
    first_token: {settings.first_token}
    response: {settings.response}
    idle: {settings.idle}
"""
