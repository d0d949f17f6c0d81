// The AI SDK's providers, each with what is particular to it, so that one behaviour is tested with all of them.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";

import { CLAUDE, MODEL } from "./line.js";
import { KEY } from "./processes.js";
import * as scripts from "./scripts.js";

// Hints for the developer on the console are no part of what is tested.
globalThis.AI_SDK_LOG_WARNINGS = false;

const CHAT = {
  name: MODEL,
  target: "primary",
  standby: "standby",
  end: "data: [DONE]",
  errorEvent: scripts.errorEvent(3, scripts.error("boom", "server_error"), "one two three four five six"),
  badRequest: (text) => scripts.status(400, scripts.error(text, "invalid_request_error", null, "messages")),
  rateLimit: scripts.rateLimit,
  overloaded: (headers) => scripts.overloaded(503, headers),
  exhausted: 503,
};

/** Every provider's base URL ends in `/v1`, Anthropic's too. */
export const PROVIDERS = {
  "openai": {
    ...CHAT,
    model: (line, name = MODEL, apiKey = KEY) => createOpenAI({ baseURL: line.baseURL, apiKey }).chat(name),
  },
  "openai-compatible": {
    ...CHAT,
    model: (line, name = MODEL, apiKey = KEY) =>
      createOpenAICompatible({
        name: "pointsman", baseURL: line.baseURL, apiKey, includeUsage: true, supportsStructuredOutputs: true,
      }).chatModel(name),
  },
  "anthropic": {
    name: CLAUDE,
    target: "claude",
    standby: "claude-standby",
    end: "event: message_stop",
    errorEvent: scripts.anthropicErrorEvent(3, "overloaded_error", "Overloaded"),
    badRequest: (text) => scripts.anthropicStatus(400, "invalid_request_error", text),
    rateLimit: scripts.anthropicRateLimit,
    overloaded: (headers) => scripts.anthropicStatus(529, "overloaded_error", "Overloaded", headers),
    exhausted: 529,
    model: (line, name = CLAUDE, apiKey = KEY) => createAnthropic({ baseURL: line.baseURL, apiKey })(name),
  },
};
