// Clients of Responses in front of a provider of Responses, of Messages and of Chat Completions: the same to the client.

import assert from "node:assert/strict";

import { createOpenAI } from "@ai-sdk/openai";
import { generateText, isStepCount, Output, streamText, tool } from "ai";
import OpenAI from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import * as z from "zod/v4";

import { CLAUDE, failure, GPT, MODEL, onLine } from "./line.js";
import { KEY } from "./processes.js";
import * as scripts from "./scripts.js";

globalThis.AI_SDK_LOG_WARNINGS = false;

const INPUT = [{ role: "user", content: "What is the weather in Paris?" }];
const TEXT = "one two three four five six seven eight";
const ARGUMENTS = { city: "Paris — Île-de-France" };
const CITY = z.object({ city: z.string() });
const TOOL = {
  type: "function", name: "get_weather", description: "The weather.", strict: true,
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false },
};
const PROVIDERS = [
  { name: GPT, of: "Responses", path: "/responses", thinks: "summary" },
  { name: CLAUDE, of: "Messages", path: "/messages", thinks: "thinking" },
  { name: MODEL, of: "Chat Completions", path: "/chat/completions", thinks: "reasoning_content" },
];

/** A response; a stream is gathered by the SDK's own helper. */
function respond(line, model, stream, more = {}) {
  const { responses } = new OpenAI({ baseURL: line.baseURL, apiKey: KEY });
  const ask = { model, input: INPUT, ...more };
  return stream ? responses.stream(ask).finalResponse() : responses.create(ask);
}

function ai(line, model) {
  return createOpenAI({ baseURL: line.baseURL, apiKey: KEY })(model);
}

async function asked(sim) {
  return (await sim.received()).filter((one) => one.method === "POST");
}

function ofKind(response, kind) {
  return response.output.filter((item) => item.type === kind);
}

/** A call of the tool, after a thought. */
function thoughtfulCall(field) {
  const script = scripts.toolCall("get_weather", ARGUMENTS);
  script.answer.reasoning = { text: "first this", field };
  return script;
}

for (const { name: model, of, path, thinks } of PROVIDERS) {
  for (const [way, stream] of [["whole", false], ["stream", true]]) {
    onLine(`openai: a response by a provider of ${of}, ${way}`, async (line) => {
      await line.primary.set(scripts.answer(TEXT));
      const response = await respond(line, model, stream, { instructions: "Be brief." });
      assert.deepEqual([response.output_text, response.status, response.error], [TEXT, "completed", null]);
      const [{ path: took }] = await asked(line.primary);
      assert.ok(took.endsWith(path), took);
      assert.deepEqual(await line.counts(), [1, 1, 0]);
    });

    onLine(`openai: two turns with a tool and what was thought at a provider of ${of}, ${way}`, async (line) => {
      await line.primary.enqueue(thoughtfulCall(thinks), scripts.answer(TEXT));
      const more = { tools: [TOOL], store: false, reasoning: { effort: "low", summary: "auto" } };
      const first = await respond(line, model, stream, more);
      const [call] = ofKind(first, "function_call");
      assert.deepEqual([call.name, JSON.parse(call.arguments)], ["get_weather", ARGUMENTS]);
      assert.equal(ofKind(first, "reasoning").length, 1);
      // What the SDK's helper adds for its user is no part of an item.
      const output = first.output.map(({ parsed_arguments, ...item }) => item);
      const result = { type: "function_call_output", call_id: call.call_id, output: "rain" };
      const second = await respond(line, model, stream, { ...more, input: [...INPUT, ...output, result] });
      assert.equal(second.output_text, TEXT);
      const [, { body }] = await asked(line.primary);
      assert.ok(!JSON.stringify(body).includes("pm1."), "a seal of the gateway's own never leaves it");
      assert.deepEqual(await line.counts(), [2, 2, 0]);
    });

    onLine(`openai: a failure before the first output is not seen with a provider of ${of}, ${way}`, async (line) => {
      await line.primary.set(scripts.overloaded(503));
      await line.standby.set(scripts.answer(TEXT));
      assert.equal((await respond(line, model, stream)).output_text, TEXT);
      assert.deepEqual(await line.counts(), [1, 1, 1]);
    });

    onLine(`openai: spent retries are one request with providers of ${of}, ${way}`, async (line) => {
      for (const sim of [line.primary, line.standby]) await sim.set(scripts.rateLimit(30));
      const error = await failure(respond(line, model, stream), OpenAI.RateLimitError);
      assert.deepEqual([error.status, error.code], [429, "rate_limit_exceeded"]);
      assert.equal((await line.counts())[0], 1);
    });
  }

  onLine(`openai: an answer of a provider of ${of} is parsed as what was asked for`, async (line) => {
    await line.primary.set(scripts.answer('{"city": "Oslo"}'));
    const { responses } = new OpenAI({ baseURL: line.baseURL, apiKey: KEY });
    const ask = { model, input: INPUT, text: { format: zodTextFormat(CITY, "city") } };
    assert.deepEqual((await responses.parse(ask)).output_parsed, { city: "Oslo" });
    assert.deepEqual((await responses.stream(ask).finalResponse()).output_parsed, { city: "Oslo" });
  });

  onLine(`openai: a break after the first output of a provider of ${of} is a failed response`, async (line) => {
    await line.primary.set(scripts.breaks("cut", 3, TEXT));
    const events = [];
    const stream = await new OpenAI({ baseURL: line.baseURL, apiKey: KEY }).responses.create({
      model, input: INPUT, stream: true,
    });
    for await (const event of stream) events.push(event);
    const last = events.at(-1);
    assert.deepEqual([last.type, last.response.error.code], ["response.failed", "upstream_failed"]);
    // The helper hands out what there is: its status alone says that it is no answer.
    assert.equal((await respond(line, model, true)).status, "failed");
    assert.deepEqual(await line.counts(), [2, 2, 0]);
  });

  onLine(`openai: an answer that a provider of ${of} cut by its limit is incomplete`, async (line) => {
    await line.primary.set({ answer: { text: TEXT, finish: "length" } });
    for (const stream of [false, true]) {
      const { status, incomplete_details } = await respond(line, model, stream);
      assert.deepEqual([status, incomplete_details.reason], ["incomplete", "max_output_tokens"]);
    }
  });

  onLine(`ai: steps with a tool at a provider of ${of}`, async (line) => {
    const called = [];
    const get_weather = tool({
      description: "The weather at a place.",
      inputSchema: CITY,
      execute: async (input) => (called.push(input), { degrees: 22 }),
    });
    const options = {
      model: ai(line, model), prompt: INPUT[0].content, tools: { get_weather }, stopWhen: isStepCount(3),
      providerOptions: { openai: { store: false, reasoningEffort: "low", reasoningSummary: "auto" } },
    };
    await line.primary.enqueue(thoughtfulCall(thinks), scripts.answer("It is warm."));
    assert.equal((await generateText(options)).text, "It is warm.");
    await line.primary.enqueue(thoughtfulCall(thinks), scripts.answer("It is warm."));
    const streamed = streamText(options);
    assert.equal(await streamed.text, "It is warm.");
    assert.equal(await streamed.finishReason, "stop");
    assert.deepEqual(called, [ARGUMENTS, ARGUMENTS]);
    assert.deepEqual(await line.counts(), [4, 4, 0]);
  });

  onLine(`ai: an object of a schema by a provider of ${of}`, async (line) => {
    await line.primary.set(scripts.answer('{"city": "Oslo"}'));
    const result = await generateText({
      model: ai(line, model), prompt: INPUT[0].content, output: Output.object({ schema: CITY }),
    });
    assert.deepEqual(result.output, { city: "Oslo" });
  });
}

onLine("ai: what it does by default, with a memory at the provider, is said to be impossible elsewhere", async (line) => {
  const options = { model: ai(line, CLAUDE), prompt: "x", maxRetries: 0 };
  const stored = { openai: { previousResponseId: "resp_1" } };
  const error = await failure(generateText({ ...options, providerOptions: stored }));
  assert.match(error.message, /previous_response_id/);
  assert.deepEqual(await line.counts(), [1, 0, 0]);
});
