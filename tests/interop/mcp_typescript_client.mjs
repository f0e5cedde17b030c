// A client of the official TypeScript SDK: uses every feature of a server once and prints what it got, as JSON.
//
//     mcp_typescript_client.mjs MODULES stdio COMMAND ARG ...
//     mcp_typescript_client.mjs MODULES http URL
import { pathToFileURL } from "node:url";

const [modules, transport, ...target] = process.argv.slice(2);
const sdk = (path) => import(pathToFileURL(`${modules}/@modelcontextprotocol/sdk/dist/esm/${path}`));
const { Client } = await sdk("client/index.js");
const { StdioClientTransport } = await sdk("client/stdio.js");
const { StreamableHTTPClientTransport } = await sdk("client/streamableHttp.js");
const types = await sdk("types.js");

const client = new Client(
  { name: "typescript", version: "1" },
  { capabilities: { roots: {}, elicitation: { form: {} }, sampling: {} } },
);
const logs = [];
const grown = new Promise((resolve) =>
  client.setNotificationHandler(types.ToolListChangedNotificationSchema, () => resolve(true)),
);
client.setNotificationHandler(types.LoggingMessageNotificationSchema, ({ params }) => {
  logs.push([params.level, params.data]);
});
client.setRequestHandler(types.ListRootsRequestSchema, () => ({ roots: [{ uri: "file:///root", name: "root" }] }));
client.setRequestHandler(types.ElicitRequestSchema, () => ({ action: "accept", content: { name: "Ada" } }));
client.setRequestHandler(types.CreateMessageRequestSchema, () => ({
  role: "assistant",
  model: "m",
  content: { type: "text", text: "thought" },
}));

await client.connect(
  transport === "stdio"
    ? new StdioClientTransport({ command: target[0], args: target.slice(1), env: process.env, stderr: "inherit" })
    : new StreamableHTTPClientTransport(new URL(target[0])),
);
const call = async (name, args = {}, options = {}) => {
  const { content, structuredContent, isError } = await client.callTool({ name, arguments: args }, undefined, options);
  return [content, structuredContent ?? null, isError ?? false];
};
const code = async (promise) => promise.then(() => 0, (error) => error.code);
const progress = [];
const aborter = new AbortController();
const got = {
  server: client.getServerVersion(),
  instructions: client.getInstructions(),
  capabilities: Object.keys(client.getServerCapabilities()).sort(),
  tools: (await client.listTools()).tools.map((tool) => tool.name).sort(),
  add: await call("add", { a: 2, b: 3 }),
  fail: await call("fail"),
  everything: (await call("everything"))[0].map((part) => part.type),
  count: await call("count", { to: 3 }, { onprogress: ({ progress: at, total, message }) => progress.push([at, total, message]) }),
  progress,
  meet: (await call("meet"))[0],
  think: (await call("think"))[0],
  surroundings: (await call("surroundings"))[0],
  waiting: await code(call("wait", {}, { signal: aborter.signal, onprogress: () => aborter.abort("enough") }).catch(() => { throw { code: "aborted" }; })),
  regret: (await call("regret"))[0],
  unknown: await code(client.callTool({ name: "no such tool" })),
  prompts: (await client.listPrompts()).prompts.map((prompt) => [prompt.name, prompt.arguments?.map((one) => one.name)]),
  prompt: (await client.getPrompt({ name: "review", arguments: { file: "a.py" } })).messages,
  completion: (await client.complete({ ref: { type: "ref/prompt", name: "review" }, argument: { name: "file", value: "a" } })).completion.values,
  resources: (await client.listResources()).resources.map((one) => one.uri),
  templates: (await client.listResourceTemplates()).resourceTemplates.map((one) => one.uriTemplate),
  resource: (await client.readResource({ uri: "note://all" })).contents,
  gone: await code(client.readResource({ uri: "note://gone" })),
  level: await client.setLoggingLevel("info"),
  log: (await call("log"))[0],
  logs,
  grow: (await call("grow"))[0],
  grown: await grown,
  leaf: (await client.listTools()).tools.map((tool) => tool.name).includes("leaf"),
  ping: await client.ping(),
};
console.log(JSON.stringify(got));
await client.close();
