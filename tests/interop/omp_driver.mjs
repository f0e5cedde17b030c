// Calls methods of a real RpcClient as lines on stdin say, all at once if need be, and tells what came of each.
//
//     omp_driver.mjs MODULE OPTIONS      where the class is, and what its constructor is given
//     → {"id": 1, "call": "getState", "args": []}
//     ← {"type": "done", "id": 1, "value": {...}} or {"type": "failed", "id": 1, "error": "..."}
//     ← {"type": "event", "event": {...}}
import { createInterface } from "node:readline";

const [module, options] = process.argv.slice(2);
const { RpcClient } = await import(module);
const { customTools = [], ...told } = JSON.parse(options);
const execute = (given) => "was given " + JSON.stringify(given);
const client = new RpcClient({ ...told, customTools: customTools.map((tool) => ({ ...tool, execute })) });
const tell = (frame) => process.stdout.write(JSON.stringify(frame) + "\n");
const listen = client.onSessionEvent ?? client.onEvent; // the second is all that earlier ones have
listen.call(client, (event) => tell({ type: "event", event }));

async function call({ id, call, args }) {
  try {
    tell({ type: "done", id, value: await client[call](...args) });
  } catch (error) {
    tell({ type: "failed", id, error: String(error.message) });
  }
}

for await (const line of createInterface({ input: process.stdin })) void call(JSON.parse(line));
await client.stop();
process.exit(0);
