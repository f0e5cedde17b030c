// A server of the official TypeScript SDK, with the tools that mcp_features.py calls.
//
//     mcp_typescript_server.mjs MODULES stdio | http | sse       where the SDK is; the latter two print their port first
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

const [modules, transport] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(`${modules}/${path}`));
const sdk = (path) => load(`@modelcontextprotocol/sdk/dist/esm/${path}`);
const { McpServer, ResourceTemplate } = await sdk("server/mcp.js");
const { completable } = await sdk("server/completable.js");
const { z } = await load("zod/index.js");
const PIXEL = Buffer.concat([Buffer.from("89504e470d0a1a0a", "hex"), Buffer.from(" rest of a picture")]);
const text = (words) => ({ content: [{ type: "text", text: words }] });

let wake;
const cancelled = new Promise((resolve) => (wake = resolve));

function made() {
  const server = new McpServer({ name: "feature", version: "1.2.3" }, { capabilities: { logging: {} } });
  const progress = (extra, params) =>
    extra.sendNotification({
      method: "notifications/progress",
      params: { progressToken: extra._meta?.progressToken ?? "none", ...params },
    });
  server.registerTool(
    "add",
    {
      description: "Add two numbers.",
      inputSchema: { a: z.number(), b: z.number() },
      outputSchema: { result: z.number() },
      annotations: { readOnlyHint: true, title: "Sum" },
    },
    ({ a, b }) => ({ ...text(String(a + b)), structuredContent: { result: a + b } }),
  );
  server.registerTool("fail", { description: "Fail." }, () => {
    throw new Error("the oven is cold");
  });
  server.registerTool("everything", { description: "All kinds of content." }, () => ({
    content: [
      { type: "text", text: "first" },
      { type: "image", data: PIXEL.toString("base64"), mimeType: "image/png" },
      { type: "resource", resource: { uri: "note://1", text: "a note" } },
      { type: "resource_link", name: "manual", uri: "https://manual.example/1", description: "how to" },
      { type: "text", text: "last" },
    ],
  }));
  server.registerTool("count", { description: "Count.", inputSchema: { to: z.number() } }, async ({ to }, extra) => {
    for (let number = 1; number <= to; number++)
      await progress(extra, { progress: number, total: to, message: `at ${number}` });
    return text("done");
  });
  server.registerTool("meet", { description: "Ask who is there." }, async () => {
    const requestedSchema = { type: "object", properties: { value: { type: "string" } }, required: ["value"] };
    const { action, content } = await server.server.elicitInput({ message: "Who are you?", requestedSchema });
    return text(`${action} ${content?.value ?? "None"}`);
  });
  server.registerTool("wait", { description: "Wait for ever." }, async (extra) => {
    await progress(extra, { progress: 0, message: "waiting" });
    await new Promise((resolve) => extra.signal.addEventListener("abort", resolve));
    wake();
    return text("never");
  });
  server.registerTool("regret", { description: "Tell when the wait was cancelled." }, async () => {
    await cancelled;
    return text("cancelled");
  });
  server.registerTool("surroundings", { description: "Roots." }, async () => {
    const { roots } = await server.server.listRoots();
    return text(roots.map((root) => root.uri).join(" "));
  });
  server.registerTool("grow", { description: "Get another tool." }, () => {
    server.registerTool("leaf", { description: "A leaf." }, () => text("grown"));
    return text("growing");
  });
  server.registerPrompt(
    "review",
    {
      description: "Review a file.",
      argsSchema: {
        file: completable(z.string(), (start) => ["a.py", "ab.py", "b.py"].filter((one) => one.startsWith(start))),
        wish: z.string().optional(),
      },
    },
    ({ file, wish }) => ({
      messages: [{ role: "user", content: { type: "text", text: `Please review ${file}. ${wish ?? ""}` } }],
    }),
  );
  server.registerResource("notes", "note://all", { mimeType: "text/plain" }, (uri) => ({
    contents: [{ uri: uri.href, text: "one note" }],
  }));
  server.registerResource(
    "note",
    new ResourceTemplate("note://{number}", { list: undefined }),
    { mimeType: "text/plain" },
    (uri, { number }) => ({ contents: [{ uri: uri.href, text: `note ${number}` }] }),
  );
  return server;
}

async function body(request) {
  let data = "";
  for await (const part of request) data += part;
  return data ? JSON.parse(data) : undefined;
}

if (transport === "stdio") {
  const { StdioServerTransport } = await sdk("server/stdio.js");
  await made().connect(new StdioServerTransport());
} else {
  const { StreamableHTTPServerTransport } = await sdk("server/streamableHttp.js");
  const { SSEServerTransport } = await sdk("server/sse.js");
  const open = new Map();
  const http = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url, "http://x");
    if (pathname === "/sse") {
      const stream = new SSEServerTransport("/messages", response);
      open.set(stream.sessionId, stream);
      return made().connect(stream);
    }
    if (pathname === "/messages") return open.get(searchParams.get("sessionId")).handlePostMessage(request, response);
    const message = request.method === "POST" ? await body(request) : undefined;
    let session = open.get(request.headers["mcp-session-id"]);
    if (!session) {
      if (message?.method !== "initialize") return response.writeHead(404).end();
      session = new StreamableHTTPServerTransport({
        sessionIdGenerator: () => crypto.randomUUID(),
        onsessioninitialized: (id) => open.set(id, session),
        onsessionclosed: (id) => process.stdout.write(`closed ${open.delete(id)}\n`),
      });
      await made().connect(session);
    }
    return session.handleRequest(request, response, message);
  });
  http.listen(0, "127.0.0.1", () => process.stdout.write(`${http.address().port}\n`));
}
