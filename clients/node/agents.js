// Claude Code and Codex in front of a provider of another dialect: a task of two turns with a tool of theirs, whole, with
// a provider that fails, and with one whose answer breaks.
//
// Not part of every run: the two take 800 MB. POINTSMAN_AGENTS names the folder whose `node_modules` has them; see
// README.md.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { access, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";

import { CLAUDE, GPT, MODEL, onLine } from "./line.js";
import { KEY } from "./processes.js";
import * as scripts from "./scripts.js";

const FOLDER = process.env.POINTSMAN_AGENTS;
if (!FOLDER) throw new Error("POINTSMAN_AGENTS must name a folder with @anthropic-ai/claude-code and @openai/codex");

/** Milliseconds that an agent may take for its task. */
const WITHIN = 50_000;
const COMMAND = "echo hi > made.txt";
const DONE = "It is done.";
const TASK = "Make the file made.txt.";
/** Agents think for longer than the SDKs' tests allow a simulated provider. */
const PATIENT = { first_token: "10s", response: "10s", idle: "10s" };

const AGENTS = {
  "Claude Code": {
    models: [MODEL, GPT, CLAUDE],
    call: scripts.toolCall("Bash", { command: COMMAND, description: "Makes a file" }),
    command: "claude",
    args: (model) => ["-p", TASK, "--model", model, "--allowedTools", "Bash"],
    env: async (line) => ({
      ANTHROPIC_BASE_URL: line.root, ANTHROPIC_API_KEY: KEY, DISABLE_TELEMETRY: "1", DISABLE_AUTOUPDATER: "1",
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    }),
  },
  "Codex": {
    models: [MODEL, CLAUDE, GPT],
    call: scripts.toolCall("exec_command", { cmd: COMMAND }),
    command: "codex",
    args: (model) => ["exec", "-m", model, "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", TASK],
    env: async (line, home) => {
      const provider = `name = "p"\nbase_url = "${line.baseURL}"\nenv_key = "GATEWAY_KEY"\nwire_api = "responses"\n`;
      await writeFile(path.join(home, "config.toml"), `model_provider = "p"\n[model_providers.p]\n${provider}`);
      return { CODEX_HOME: home, GATEWAY_KEY: KEY };
    },
  },
};

/** Lets an agent do its task in a folder of its own: what it said, and whether the file is there. */
async function work(agent, line, model) {
  const home = await mkdtemp(path.join(os.tmpdir(), "pointsman-agent-"));
  const cwd = path.join(home, "work");
  await mkdir(cwd);
  const env = { PATH: process.env.PATH, HOME: home, ...(await agent.env(line, home)) };
  const program = path.join(FOLDER, "node_modules/.bin", agent.command);
  try {
    const said = await new Promise((resolve, reject) => {
      const child = execFile(program, agent.args(model), { cwd, env, timeout: WITHIN }, (error, stdout, stderr) =>
        error ? reject(new Error(`${agent.command}: ${error.message}\n${stdout}\n${stderr}`)) : resolve(stdout));
      child.stdin.end();
    });
    const made = await access(path.join(cwd, "made.txt")).then(() => true, () => false);
    return { said, made };
  } finally {
    await rm(home, { recursive: true, force: true, maxRetries: 5 });
  }
}

for (const [name, agent] of Object.entries(AGENTS)) {
  for (const model of agent.models) {
    const does = async (line, ...between) => {
      for (const sim of [line.primary, line.standby]) await sim.set(scripts.answer(DONE));
      await line.primary.enqueue(agent.call, ...between);
      const { said, made } = await work(agent, line, model);
      assert.ok(said.includes(DONE) && made, said);
      return line.counts();
    };

    onLine(`${name} does its task with ${model}`, PATIENT, async (line) => {
      assert.deepEqual(await does(line), [2, 2, 0]);
    });

    onLine(`${name} does not see that ${model} fails between its turns`, PATIENT, async (line) => {
      assert.deepEqual(await does(line, scripts.overloaded(503)), [2, 2, 1]);
    });

    onLine(`${name} asks again when an answer of ${model} breaks`, PATIENT, async (line) => {
      assert.deepEqual(await does(line, scripts.breaks("cut", 3, "one two three four five six")), [3, 3, 0]);
    });
  }
}
