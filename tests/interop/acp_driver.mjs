// A client of the official TypeScript SDK. Lines on stdin say what it does, and it tells what it hears.
//
//     acp_driver.mjs MODULE AGENT        where the SDK is; JSON with argv, cwd and env of the agent
//     → {"id": 1, "method": "session/new", "params": {...}}, without id for a notification
//     ← {"id": 1, "result": {...}} or {"id": 1, "error": {"code": -32602, ...}}
//     ← {"update": {...}}, {"ask": 1, "method": "session/request_permission", "params": {...}}
//     → {"ask": 1, "result": {...}}
//     ← {"exit": 0}                      after stdin was closed
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";

const [module, about] = process.argv.slice(2);
const { client, ndJsonStream, methods } = await import(module);
const { argv, cwd, env } = JSON.parse(about);
const child = spawn(argv[0], argv.slice(1), { cwd, env, stdio: ["pipe", "pipe", "inherit"] });
const exit = new Promise((resolve) => child.on("exit", (code, signal) => resolve(code ?? signal)));
const tell = (frame) => process.stdout.write(JSON.stringify(frame) + "\n");
const asks = [];

const ask = (method) => ({ params }) =>
  new Promise((resolve) => tell({ ask: asks.push(resolve) - 1, method, params }));

async function call(context, { id, method, params }) {
  try {
    tell({ id, result: await context.request(method, params) });
  } catch ({ code, message, data }) {
    tell({ id, error: { code, message, data } });
  }
}

const { session, elicitation, fs = {}, terminal = {} } = methods.client; // version 2 has no files and terminals
const app = client({ name: "driver" }).onNotification(session.update, ({ params }) => tell({ update: params }));
for (const method of [session.requestPermission, elicitation.create, ...Object.values(fs), ...Object.values(terminal)])
  app.onRequest(method, ask(method));

await app.connectWith(ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)), async (context) => {
  for await (const line of createInterface({ input: process.stdin })) {
    const frame = JSON.parse(line);
    if ("ask" in frame) asks[frame.ask](frame.result);
    else if ("id" in frame) void call(context, frame);
    else await context.notify(frame.method, frame.params);
  }
});
child.stdin.end();
tell({ exit: await exit });
process.exit(0);
