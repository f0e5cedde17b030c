// The vendor's TypeScript SDK, pointed at polylect. `node claude_driver.mjs SCENE` plays one scene with what stdin
// says of the place, and prints what was heard: {"message": ...} for each message, {"note": [...]} for all else.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const place = JSON.parse(readFileSync(0, "utf8"));
const load = (path) => import(pathToFileURL(join(place.modules, path)));
const { query, tool, createSdkMcpServer } = await load("@anthropic-ai/claude-agent-sdk/sdk.mjs");
const { z } = await load("zod/index.js");

const print = (value) => process.stdout.write(JSON.stringify(value) + "\n");
const note = (...words) => print({ note: words });

function options(how = {}) {
  return {
    pathToClaudeCodeExecutable: place.cli,
    cwd: place.cwd,
    env: { ...process.env, ...place.env },
    stderr: (text) => note("stderr", text),
    ...how,
  };
}

/** One prompt by a process of its own. */
async function ask(prompt, how, each = async () => {}) {
  async function* once() {
    yield user(prompt);
  }
  for await (const message of query({ prompt: once(), options: options(how) })) {
    print({ message });
    await each(message);
  }
}

const user = (content) => ({ type: "user", message: { role: "user", content }, parent_tool_use_id: null });

/** Prompts one after the other. The conversation is handed to what stands beside a prompt, and to `each` message. */
async function converse(prompts, how = {}, each = async () => {}) {
  const ended = [];
  const results = prompts.map(() => new Promise((resolve) => ended.push(resolve)));
  let talk = null;
  async function* stream() {
    for (const [number, [prompt, before]] of prompts.entries()) {
      if (number) await results[number - 1];
      if (before) await before(talk);
      yield user(prompt);
    }
    await results.at(-1); // until then there may be something to say
  }
  talk = query({ prompt: stream(), options: options(how) });
  for await (const message of talk) {
    print({ message });
    if (message.type === "result") ended.shift()();
    await each(message, talk);
  }
}

function answering(verdict) {
  return async (name, input, { toolUseID }) => {
    note("asked", name, input, toolUseID);
    return verdict;
  };
}

function hook(answer) {
  return async (input, call) => {
    note("hook", input.hook_event_name, call);
    return answer(input);
  };
}

const hooks = (moment, answer, matcher) => ({ [moment]: [{ matcher, hooks: [hook(answer)] }] });
const added = (input) => ({
  hookSpecificOutput: { hookEventName: input.hook_event_name, additionalContext: `said by ${input.hook_event_name}` },
});
const denied = () => ({
  hookSpecificOutput: {
    hookEventName: "PreToolUse",
    permissionDecision: "deny",
    permissionDecisionReason: "nothing is made here",
  },
});
const bypass = { permissionMode: "bypassPermissions", allowDangerouslySkipPermissions: true };

const SCENES = {
  async text() {
    for await (const message of query({ prompt: "HELLO", options: options() })) print({ message });
  },
  turns: () => converse([["ONE"], ["TWO"]]),
  partials: () => ask("MAKE", { ...bypass, includePartialMessages: true }),
  allow: () => ask("MAKE", { canUseTool: answering({ behavior: "allow", updatedInput: { command: "touch other" } }) }),
  deny: () => ask("MAKE", { canUseTool: answering({ behavior: "deny", message: "not today" }) }),
  stop: () => converse([["MAKE"]], { canUseTool: answering({ behavior: "deny", message: "no", interrupt: true }) }),
  hooks: () => ask("MAKE", { ...bypass, hooks: hooks("PreToolUse", denied, "Bash") }),
  context: () =>
    ask("MAKE", { ...bypass, hooks: { ...hooks("UserPromptSubmit", added), ...hooks("PostToolUse", added) } }),
  async server() {
    const add = tool("add", "Add two numbers.", { a: z.number(), b: z.number() }, async ({ a, b }) => ({
      content: [{ type: "text", text: String(a + b) }],
    }));
    const sums = createSdkMcpServer({ name: "sums", tools: [add] });
    const status = async (talk) => note("servers", (await talk.mcpServerStatus()).map((one) => [one.name, one.status]));
    await converse([["SUM"], ["SUM", status]], { mcpServers: { sums }, allowedTools: ["mcp__sums__add"] });
  },
  settings: () =>
    converse(
      [
        ["HELLO"],
        [
          "HELLO",
          async (talk) => {
            await talk.setModel("claude-opus-5-5");
            await talk.setPermissionMode("acceptEdits");
            const used = await talk.getContextUsage();
            note("context", used.totalTokens, used.maxTokens);
            note("commands", (await talk.supportedCommands()).map((one) => one.name));
            note("models", (await talk.supportedModels()).length);
            note("auto", used.isAutoCompactEnabled, used.memoryFiles.length);
            const reloaded = await talk.reloadPlugins();
            note("reloaded", reloaded.commands.length, reloaded.plugins.length, (await talk.reloadSkills()).skills.length);
            note("moved", await talk.backgroundTasks());
            const file = await talk.readFile("notes.txt");
            note("file", file.contents, file.lossy, await talk.readFile("/etc/passwd"));
            await talk.seedReadState("notes.txt", 0);
            note("plan", (await talk.getPlan()).exists, (await talk.reloadOutputStyles()).available_output_styles.length);
            await talk.setCwd("/tmp").catch((error) => note("refused", String(error.message)));
          },
        ],
      ],
      { model: "claude-sonnet-5", systemPrompt: "You are a parrot.", disallowedTools: ["WebFetch"] },
    ),
  interrupt: () =>
    converse([["LONG"], ["SHORT"]], { includePartialMessages: true }, async (message, talk) => {
      if (message.message?.content[0].text === "First.") await talk.interrupt();
    }),
  async sessions() {
    let id = "";
    const remember = async (message) => void (id = message.type === "result" ? message.session_id : id);
    await ask("ONE", {}, remember);
    await ask("TWO", { resume: id }, remember);
    await ask("THREE", { resume: id, forkSession: true }, remember);
    await ask("FOUR", { continue: true }, remember);
  },
  form: () =>
    ask("SUM", {
      outputFormat: {
        type: "json_schema",
        schema: { type: "object", properties: { sum: { type: "integer" } }, required: ["sum"] },
      },
    }),
  agents: () => ask("DELEGATE", { ...bypass, forwardSubagentText: true }),
  own: () =>
    ask("DELEGATE", {
      agents: { parrot: { description: "Repeats.", prompt: "You are a parrot.", tools: ["Read"] } },
      forwardSubagentText: true,
    }),
  task: () =>
    converse([["DELEGATE"]], {}, async (message, talk) => {
      if (message.subtype === "task_started") await talk.stopTask(message.task_id);
    }),
  limit: () => ask("MAKE", { maxTurns: 1, allowedTools: ["Bash"] }),
  large: () => ask("BIG", bypass),
};

try {
  await SCENES[process.argv[2]]();
} catch (error) {
  note("raised", String(error?.message ?? error));
}
