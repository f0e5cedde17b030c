// A host in a few lines, as the guide for host authors shows one: a question, its answer, and every tool allowed.
import { spawn } from "node:child_process";
import * as readline from "node:readline";

const engine = spawn("wayland-core", ["--json-stream", "--provider", "scripted"], {
  stdio: ["pipe", "pipe", "inherit"],
});
const say = (command) => engine.stdin.write(JSON.stringify(command) + "\n");

readline.createInterface({ input: engine.stdout }).on("line", (line) => {
  const event = JSON.parse(line);
  if (event.type === "ready") {
    say({ type: "message", msg_id: "m1", content: "What does this project do?" });
  } else if (event.type === "text_delta") {
    process.stdout.write(event.text);
  } else if (event.type === "tool_request") {
    say({ type: "tool_approve", call_id: event.call_id, scope: "once" });
  } else if (event.type === "stream_end") {
    engine.stdin.end();
  }
});
engine.on("exit", (code) => process.exit(code));
