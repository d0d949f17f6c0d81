// The AI SDK when something fails: failover that it does not see, one honest error after the first word, and its errors.
//
// It is the one SDK here that does not read `x-should-retry`: what the gateway has given up it asks again, unless told
// `maxRetries: 0`.

import assert from "node:assert/strict";

import { APICallError, generateText, RetryError, StreamProviderError, streamText, tool } from "ai";
import * as z from "zod/v4";

import { PROVIDERS } from "./ai-providers.js";
import { failure, onLine } from "./line.js";
import { KEY } from "./processes.js";
import * as scripts from "./scripts.js";

const TEXT = "the standby answers in seven plain words";
const LONG = "one two three four five six seven eight";
const PROMPT = "Hello";
const ONCE = { prompt: PROMPT, maxRetries: 0 };

async function partsOf(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

/** The parts of a stream that fails, with what `onError` was told. */
async function failing(options) {
  const told = [];
  const result = streamText({ ...options, onError: ({ error }) => void told.push(error) });
  const parts = await partsOf(result.stream);
  const errors = parts.filter((part) => part.type === "error").map((part) => part.error);
  return { result, parts, told, errors };
}

for (const [name, provider] of Object.entries(PROVIDERS)) {
  for (const [what, script] of Object.entries({
    "a reset": scripts.RESET_BEFORE_HEADERS,
    "an overload": provider.overloaded(),
    "a rate limit": provider.rateLimit(30),
    "silence": scripts.SILENCE,
    "a cut before the first word": scripts.breaks("cut", 0, "never seen"),
  })) {
    onLine(`${name}: failover is invisible: ${what}, stream`, async (line) => {
      await line.primary.set(script);
      await line.standby.set(scripts.answer(TEXT));
      const result = streamText({ ...ONCE, model: provider.model(line) });
      const parts = await partsOf(result.stream);
      assert.deepEqual(parts.filter((part) => part.type === "error"), []);
      assert.equal(await result.text, TEXT);
      const { headers } = await result.response;
      assert.equal(headers["x-pointsman-target"], provider.standby);
      assert.equal(headers["x-pointsman-action"], "failover");
      assert.deepEqual(await line.counts(), [1, 1, 1]);
    });
  }

  onLine(`${name}: failover is invisible: an overload and a cut, whole`, async (line) => {
    const model = provider.model(line);
    await line.standby.set(scripts.answer(TEXT));
    await line.primary.enqueue(provider.overloaded(), scripts.breaks("cut", 3, LONG));
    assert.equal((await generateText({ ...ONCE, model })).text, TEXT);
    assert.equal((await generateText({ ...ONCE, model })).text, TEXT);
    const [asked, , standby] = await line.counts();
    assert.deepEqual([asked, standby], [2, 2]);
  });

  for (const [what, script] of Object.entries({
    "a cut": scripts.breaks("cut", 3, LONG),
    "an end without a finish": scripts.breaks("end", 3, LONG),
    "a stall": scripts.breaks("stall", 3, LONG),
    "an error event": provider.errorEvent,
  })) {
    onLine(`${name}: after the first word ${what} is one error and no answer`, async (line) => {
      await line.primary.set(script);
      await line.standby.set(scripts.answer("another answer"));
      const { result, parts, told, errors } = await failing({ model: provider.model(line), prompt: PROMPT });
      assert.equal(errors.length, 1);
      assert.ok(StreamProviderError.isInstance(errors[0]), String(errors[0]));
      assert.ok(errors[0].message);
      assert.deepEqual(told, errors);
      const text = parts.filter((part) => part.type === "text-delta").map((part) => part.text).join("");
      assert.ok(text && LONG.startsWith(text), `the beginning of the one answer: ${text}`);
      assert.deepEqual(parts.filter((part) => part.type === "finish").map((part) => part.finishReason), ["error"]);
      assert.equal(await result.finishReason, "error");
      assert.deepEqual(await line.counts(), [1, 1, 0], "not even with the SDK's own retries");
    });
  }

  onLine(`${name}: who reads the text alone learns of a break from onError and the finish reason`, async (line) => {
    await line.primary.set(scripts.breaks("cut", 3, LONG));
    const told = [];
    const result = streamText({
      model: provider.model(line), prompt: PROMPT, onError: ({ error }) => void told.push(error),
    });
    let text = "";
    // The SDK leaves errors out of this stream, and gives what came as `text`.
    for await (const part of result.textStream) text += part;
    assert.ok(text && LONG.startsWith(text), `the beginning of the one answer: ${text}`);
    assert.deepEqual([await result.text, await result.finishReason], [text, "error"]);
    assert.equal(told.length, 1);
  });

  onLine(`${name}: a half sent tool call is never run`, async (line) => {
    const script = scripts.toolCall("pay", { amount: 5, to: "somebody with a long name", note: "for the points" });
    await line.primary.set({ ...script, fault: { cut: { after: 2 } } });
    await line.standby.set(scripts.toolCall("pay", { amount: 5 }));
    const paid = [];
    const pay = tool({
      description: "Pays.",
      inputSchema: z.looseObject({ amount: z.number() }),
      execute: async (input) => void paid.push(input),
    });
    const { parts, errors } = await failing({ model: provider.model(line), prompt: PROMPT, tools: { pay } });
    assert.equal(errors.length, 1);
    const calls = parts.filter((part) => part.type === "tool-call" || part.type === "tool-result");
    assert.ok(calls.every((part) => part.invalid), "at most told as one that cannot be run");
    assert.deepEqual(paid, []);
    assert.deepEqual(await line.counts(), [1, 1, 0]);
  });

  for (const [what, expected, script, more] of [
    ["a wrong gateway key", 401, scripts.HEALTHY, ["pk-wrong"]],
    ["an unknown model", 404, scripts.HEALTHY, [KEY, "nobody"]],
    ["a bad request", 400, provider.badRequest("this cannot be done"), []],
  ]) {
    onLine(`${name}: ${what} is an APICallError with ${expected} that nobody retries`, async (line) => {
      await line.primary.set(script);
      const [key, model] = more;
      const options = { model: provider.model(line, model, key), prompt: PROMPT };
      const error = await failure(generateText(options));
      assert.ok(APICallError.isInstance(error), String(error));
      assert.deepEqual([error.statusCode, error.isRetryable], [expected, false]);
      assert.ok(error.responseHeaders["x-request-id"]);
      const { errors, told } = await failing(options);
      assert.deepEqual(errors.map((one) => one.statusCode), [expected]);
      assert.deepEqual(told, errors);
      assert.equal((await line.counts())[0], 2, "one request a call");
    });
  }

  for (const [what, script, status] of [
    ["an overload", provider.overloaded(), provider.exhausted],
    ["a rate limit", provider.rateLimit(30), 429],
  ]) {
    onLine(`${name}: when every target fails by ${what} it asks once with maxRetries: 0`, async (line) => {
      await line.primary.set(script);
      await line.standby.set(script);
      const { result, errors, told } = await failing({ ...ONCE, model: provider.model(line) });
      assert.deepEqual(errors.map((error) => [APICallError.isInstance(error), error.statusCode]), [[true, status]]);
      assert.equal(errors[0].responseHeaders["x-should-retry"], "false");
      assert.deepEqual(told, errors);
      await failure(Promise.resolve(result.text));
      assert.deepEqual(await line.counts(), [1, 1, 1]);
    });
  }

  onLine(`${name}: by default it asks three times, and each time the gateway is honest`, async (line) => {
    await line.primary.set(provider.rateLimit(1));
    await line.standby.set(provider.rateLimit(1));
    const error = await failure(generateText({ model: provider.model(line), prompt: PROMPT }));
    assert.ok(RetryError.isInstance(error), String(error));
    assert.equal(error.reason, "maxRetriesExceeded");
    assert.deepEqual(error.errors.map((one) => one.statusCode), [429, 429, 429]);
    assert.equal((await line.counts())[0], 3);
  });

  // C028: before the first word, and in a pause after it.
  onLine(`${name}: heartbeats are nothing to it`, { keepalive: "300ms", first_token: "800ms" }, async (line) => {
    await line.primary.set(scripts.ROLE_ONLY);
    await line.standby.set({ ...scripts.answer(TEXT), fault: { pause: { after: 3, for_ms: 900 } } });
    const { errors, result } = await failing({ ...ONCE, model: provider.model(line) });
    assert.deepEqual(errors, []);
    assert.equal(await result.text, TEXT);
    assert.equal((await result.response).headers["x-pointsman-early"], "true");
    assert.match(line.relay.answers, /^: ping$/m);
    assert.deepEqual(await line.counts(), [1, 1, 1]);
  });

  onLine(`${name}: an error after a heartbeat is one error`, { keepalive: "300ms", first_token: "800ms" }, async (line) => {
    await line.primary.set(scripts.ROLE_ONLY);
    await line.standby.set(provider.overloaded());
    const { errors, parts } = await failing({ ...ONCE, model: provider.model(line) });
    assert.equal(errors.length, 1);
    assert.deepEqual(parts.filter((part) => part.type === "text-delta"), []);
    assert.deepEqual(await line.counts(), [1, 1, 1]);
  });
}
