// The real processes of a test: simulated providers and the gateway, on free ports, taken down at the end.

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import http from "node:http";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";

export const HOST = "127.0.0.1";

/** The gateway key of every test; the configuration holds its hash only. */
export const KEY = "pk-node-suite-Wx3k";

/** What the gateway shows to its providers; they repeat the last four characters of what they were shown. */
export const PRIMARY_KEY = "sk-primary-Aa1A";
export const STANDBY_KEY = "sk-standby-Bb2B";

/** Milliseconds that a process may take until it answers; far more than it needs, for a busy machine. */
const READY_WITHIN = 20_000;
/** Characters of a process's output that are kept. */
const OUTPUT_KEPT = 256 * 1024;
/** Ports that are tried for one process, should another process take one first. */
const PORTS_TRIED = 5;

/** One plain HTTP request on a connection of its own. */
export async function call(port, method, path_, body) {
  const request = http.request({ host: HOST, port, method, path: path_, agent: false, timeout: 10_000 });
  request.on("timeout", () => request.destroy(new Error(`no answer from ${method} ${path_}`)));
  if (body !== undefined) request.setHeader("content-type", "application/json");
  request.end(body === undefined ? undefined : JSON.stringify(body));
  const [response] = await once(request, "response");
  return { status: response.statusCode, text: Buffer.concat(await response.toArray()).toString("utf8") };
}

/** Returns once `holds()` is true; fails the test when it is not in time. */
export async function waitFor(what, holds, within = READY_WITHIN) {
  const until = performance.now() + within;
  while (!(await holds())) {
    if (performance.now() > until) throw new Error(`not within ${within} ms: ${what}`);
    await pause(20);
  }
}

/** A child process and what it said. */
class Process {
  output = "";
  #child;
  #ended;
  #mustRun = false;

  constructor(name, args) {
    this.name = name;
    const binary = process.env.POINTSMAN_BIN;
    if (!binary) throw new Error("POINTSMAN_BIN must name the gateway's binary: run `cargo xtask test`");
    // The binary reads provider keys and proxies from the environment: a test brings its own or none.
    const kept = ["PATH", "HOME", "TMPDIR"].filter((one) => one in process.env);
    const env = Object.fromEntries(kept.map((one) => [one, process.env[one]]));
    this.#child = spawn(binary, args, { env, stdio: ["ignore", "pipe", "pipe"] });
    this.#ended = once(this.#child, "exit");
    for (const pipe of [this.#child.stdout, this.#child.stderr]) {
      pipe.setEncoding("utf8").on("data", (text) => {
        this.output = (this.output + text).slice(-OUTPUT_KEPT);
      });
    }
  }

  get hasEnded() {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Waits until `ready()` is true; `false` if the process has ended before. */
  async becomes(what, ready) {
    await waitFor(`${this.name} ${what}:\n${this.output}`, async () => this.hasEnded || (await ready()));
    this.#mustRun = !this.hasEnded;
    return this.#mustRun;
  }

  /** Ends the process at once: from now on its port refuses connections. */
  async kill() {
    this.#mustRun = false;
    this.#child.kill("SIGKILL");
    await this.#ended;
  }

  /** Takes the process down at the end of a test; one that has ended by itself fails the test. */
  async stop() {
    const endedByItself = this.#mustRun && this.hasEnded;
    await this.kill();
    if (endedByItself) throw new Error(`${this.name} ended by itself with ${this.#child.exitCode}`);
  }
}

/** A simulated provider, steered through its control endpoint. */
export class Sim extends Process {
  constructor(name, port) {
    super(name, ["sim", "--listen", `${HOST}:${port}`, "--name", name]);
    this.port = port;
  }

  /** On a free port below the range from which systems take ports for outgoing connections: after it was killed no
   * connection of another test can take it by chance. */
  static async start(name) {
    for (let tried = 1; ; tried += 1) {
      const sim = new Sim(name, 20_000 + Math.floor(Math.random() * 12_000));
      if (await sim.becomes("listens", () => sim.output.includes("base URL"))) return sim;
      if (tried === PORTS_TRIED) throw new Error(`${name} does not start:\n${sim.output}`);
    }
  }

  /** Answers every request from now on by this script. */
  async set(script) {
    await this.#control("PUT", "/_sim/script", script);
  }

  /** Answers the next requests by these scripts, one each. */
  async enqueue(...scripts) {
    await this.#control("POST", "/_sim/enqueue", scripts);
  }

  async state() {
    return this.#control("GET", "/_sim/state");
  }

  /** The generations that were asked for, as they came. */
  async received() {
    return this.#control("GET", "/_sim/received");
  }

  async #control(method, path_, body) {
    const { status, text } = await call(this.port, method, path_, body);
    if (status >= 300) throw new Error(`${this.name}: ${method} ${path_} answered ${status}: ${text}`);
    return method === "GET" ? JSON.parse(text) : undefined;
  }
}

/** What a test sets otherwise than the product's defaults: short limits, so that it need not wait for long ones. */
const SETTINGS = {
  first_token: "2s",
  response: "2s",
  idle: "2s",
  deadline: "30s",
  keepalive: "15s",
};

/** `pointsman serve` in front of two simulated providers, `primary` asked before `standby`: as OpenAI-compatible targets
 * of one model, as Anthropic targets of another, and as OpenAI's own, spoken to in Responses, of a third. */
export class Gateway extends Process {
  static async start(primary, standby, settings, folder) {
    const file = path.join(folder, "pointsman.yaml");
    await writeFile(file, configuration(primary.port, standby.port, { ...SETTINGS, ...settings }));
    const gateway = new Gateway("gateway", ["serve", "--config", file]);
    const says = /data plane +http:\/\/[^:]+:(\d+)/;
    if (!(await gateway.becomes("listens", () => says.test(gateway.output)))) {
      throw new Error(`the gateway does not start:\n${gateway.output}`);
    }
    gateway.port = Number(says.exec(gateway.output)[1]);
    return gateway;
  }
}

function configuration(primary, standby, settings) {
  const hash = createHash("sha256").update(KEY).digest("hex");
  const target = (provider, port, model, key, priority) =>
    `{ provider: ${provider}, base_url: "http://${HOST}:${port}${["anthropic", "gemini"].includes(provider) ? "" : "/v1"}", ` +
    `model: ${model}, api_key: "${key}", priority: ${priority}` +
    `${provider === "openai" ? ", dialect: responses" : ""} }`;
  return `\
server: { listen: "${HOST}:0", keepalive: ${settings.keepalive} }
admin: { listen: "${HOST}:0" }
targets:
  primary: ${target("openai-compatible", primary, "gpt-4o", PRIMARY_KEY, 1)}
  standby: ${target("openai-compatible", standby, "gpt-4o", STANDBY_KEY, 2)}
  claude: ${target("anthropic", primary, "claude-opus-5-5", PRIMARY_KEY, 1)}
  claude-standby: ${target("anthropic", standby, "claude-opus-5-5", STANDBY_KEY, 2)}
  responses: ${target("openai", primary, "gpt-5.6", PRIMARY_KEY, 1)}
  responses-standby: ${target("openai", standby, "gpt-5.6", STANDBY_KEY, 2)}
  gemini: ${target("gemini", primary, "gemini-3-pro", PRIMARY_KEY, 1)}
  gemini-standby: ${target("gemini", standby, "gemini-3-pro", STANDBY_KEY, 2)}
  private: ${target("openai-compatible", standby, "gpt-4o-private", STANDBY_KEY, 1)}
keys:
  node-suite: { hash: "sha256:${hash}", models: [gpt-4o, claude-opus-5-5, gpt-5.6, gemini-3-pro] }
defaults:
  budget:
    deadline: ${settings.deadline}
    max_same_target_attempts: 1
    connect: 2s
    first_token: ${settings.first_token}
    response: ${settings.response}
    idle: ${settings.idle}
`;
}
