// Google's SDK: what it reads of the gateway, in front of providers of its own dialect and of each other.

import assert from "node:assert/strict";

import { ApiError, FinishReason, GoogleGenAI } from "@google/genai";

import { CLAUDE, failure, GEMINI, GPT, MODEL, onLine } from "./line.js";
import { KEY } from "./processes.js";
import * as scripts from "./scripts.js";

const QUESTION = "What is the weather in Paris?";
const TEXT = "one two three four five six seven eight";
const ARGS = { city: "Paris — Île-de-France" };
const SCHEMA = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const TOOLS = [{ functionDeclarations: [{ name: "get_weather", parametersJsonSchema: SCHEMA }] }];
const PROVIDERS = [["gemini", GEMINI], ["chat", MODEL], ["messages", CLAUDE], ["responses", GPT]];
const BOTH_WAYS = [["whole", false], ["stream", true]];

function models(line, apiKey = KEY) {
  return new GoogleGenAI({ apiKey, httpOptions: { baseUrl: line.root } }).models;
}

/** All that was answered, a stream as its chunks. */
async function generate(line, model, stream, contents = QUESTION, config = {}) {
  const ask = { model, contents, config };
  if (!stream) return [await models(line).generateContent(ask)];
  const answers = [];
  for await (const answer of await models(line).generateContentStream(ask)) answers.push(answer);
  return answers;
}

function partsOf(answers) {
  return answers.flatMap((answer) => answer.candidates?.[0]?.content?.parts ?? []);
}

function textOf(answers) {
  return partsOf(answers).filter((part) => part.text && !part.thought).map((part) => part.text).join("");
}

function reasonOf(answers) {
  return answers.at(-1).candidates[0].finishReason;
}

for (const [name, model] of PROVIDERS) {
  for (const [way, stream] of BOTH_WAYS) {
    onLine(`Google's SDK gets a whole answer of a provider of ${name}, ${way}`, async (line) => {
      await line.primary.set(scripts.answer(TEXT));
      const answers = await generate(line, model, stream, QUESTION, { systemInstruction: "Be brief.", stopSequences: [] });
      assert.deepEqual([textOf(answers), reasonOf(answers)], [TEXT, FinishReason.STOP]);
      assert.deepEqual(await line.counts(), [1, 1, 0]);
    });

    onLine(`Google's SDK does two turns with a tool at a provider of ${name}, ${way}`, async (line) => {
      await line.primary.set(scripts.toolCall("get_weather", ARGS));
      const user = { role: "user", parts: [{ text: QUESTION }] };
      const called = partsOf(await generate(line, model, stream, [user], { tools: TOOLS }));
      const [{ functionCall: call }] = called.filter((part) => part.functionCall);
      assert.deepEqual([call.name, call.args], ["get_weather", ARGS]);
      const result = { functionResponse: { id: call.id, name: call.name, response: { output: "rain" } } };
      await line.primary.set(scripts.answer(TEXT));
      const conversation = [user, { role: "model", parts: called }, { role: "user", parts: [result] }];
      assert.equal(textOf(await generate(line, model, stream, conversation, { tools: TOOLS })), TEXT);
      assert.deepEqual(await line.counts(), [2, 2, 0]);
    });

    onLine(`Google's SDK sees no failure before the first word of a provider of ${name}, ${way}`, async (line) => {
      await line.primary.set("overloaded");
      await line.standby.set(scripts.answer(TEXT));
      assert.equal(textOf(await generate(line, model, stream)), TEXT);
      assert.deepEqual(await line.counts(), [1, 1, 1]);
    });
  }

  onLine(`a break after the first word of a provider of ${name} is an error of Google's SDK`, async (line) => {
    await line.primary.set("answer:one two three four five six+error-after:3");
    await assert.rejects(generate(line, model, true), ApiError);
    assert.deepEqual(await line.counts(), [1, 1, 0]);
  });
}

onLine("the gateway's errors are those of Google's SDK", async (line) => {
  const unknown = await failure(models(line).generateContent({ model: "gpt-5-unknown", contents: QUESTION }), ApiError);
  assert.equal(unknown.status, 404);
  const stranger = await failure(models(line, "pk-wrong").generateContent({ model: GEMINI, contents: QUESTION }), ApiError);
  assert.equal(stranger.status, 401);
});
