// A line: two simulated providers, the gateway in front of them, and a relay that counts in front of that.
//
// Every test has processes of its own, so that no test inherits another's breakers, throttles or counters.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";

import { Gateway, HOST, Sim, waitFor } from "./processes.js";
import { Relay } from "./relay.js";

export const MODEL = "gpt-4o";
export const CLAUDE = "claude-opus-5-5";
/** The model whose targets are spoken to in Responses. */
export const GPT = "gpt-5.6";
export const GEMINI = "gemini-3-pro";

// The machine's settings and keys must not reach an SDK: all traffic is on loopback.
for (const name of Object.keys(process.env)) {
  if (/^(https?_proxy|all_proxy|node_use_env_proxy)$/i.test(name) || /^(OPENAI|ANTHROPIC|AI_GATEWAY|GOOGLE|GEMINI)_/.test(name)) {
    delete process.env[name];
  }
}

/** Milliseconds that a test may take: none waits for anything without an end. */
const TIMEOUT = 60_000;

/** Everything of one test: what stands between the SDK and the providers, and how to look at it. */
export class Line {
  constructor(primary, standby, gateway, relay) {
    Object.assign(this, { primary, standby, gateway, relay });
  }

  /** Where Anthropic's SDK begins: without a version. */
  get root() {
    return `http://${HOST}:${this.relay.port}`;
  }

  /** Where OpenAI's SDK and the AI SDK's providers begin. */
  get baseURL() {
    return `${this.root}/v1`;
  }

  /** Requests for an answer: those of the SDK on the wire, and those that each provider got. */
  async counts() {
    const asked = this.relay.requests.filter((line) => line.startsWith("POST ")).length;
    const [primary, standby] = await Promise.all(
      [this.primary, this.standby].map(async (sim) => (sim.hasEnded ? 0 : (await sim.state()).calls)),
    );
    return [asked, primary, standby];
  }

  /** Waits until a request has reached the primary. */
  async primaryIsAsked() {
    await waitFor("the provider is asked", async () => (await this.primary.state()).active_requests === 1, 5_000);
  }

  /** Waits until the primary has noticed that its client is gone, and has nothing more to do. */
  async primaryIsLeft() {
    await waitFor("the provider's call is dropped", async () => {
      const { aborted, active_requests } = await this.primary.state();
      return aborted === 1 && active_requests === 0;
    }, 5_000);
  }
}

/** What the promise is rejected with: an error of that class. */
export async function failure(promise, kind = Error) {
  const error = await promise.then(() => undefined, (reason) => reason);
  assert.ok(error !== undefined, "it must fail");
  assert.ok(error instanceof kind, `${error?.constructor?.name} in place of ${kind.name}: ${error}`);
  return error;
}

/** The promise, unless that takes too long: then the test goes on to take its processes down, which the runner's own
 * time limit would leave running. */
async function within(milliseconds, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`the test did not end within ${milliseconds} ms`)), milliseconds);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** A test on a line of its own: `onLine("name", async (line) => …)`, or with settings of the gateway before the
 * function. */
export function onLine(name, ...rest) {
  const behaviour = rest.pop();
  const settings = rest.pop() ?? {};
  test(name, async (t) => {
    const folder = await mkdtemp(path.join(os.tmpdir(), "pointsman-node-"));
    const open = [];
    const opened = async (what) => {
      const one = await what;
      open.push(one);
      return one;
    };
    const errors = [];
    try {
      const [primary, standby] = await Promise.all([opened(Sim.start("primary")), opened(Sim.start("standby"))]);
      const gateway = await opened(Gateway.start(primary, standby, settings, folder));
      const relay = await Relay.to(gateway.port);
      try {
        await within(TIMEOUT, behaviour(new Line(primary, standby, gateway, relay)));
      } finally {
        await relay.close();
      }
    } catch (error) {
      errors.push(error);
      for (const one of open) t.diagnostic(`${one.name}:\n${one.output.slice(-8_000)}`);
    }
    const ends = await Promise.allSettled(open.map((one) => one.stop()));
    errors.push(...ends.flatMap((end) => (end.status === "rejected" ? [end.reason] : [])));
    await rm(folder, { recursive: true });
    if (errors.length > 1) throw new AggregateError(errors, errors.map(String).join("\n"));
    if (errors.length === 1) throw errors[0];
  });
}
