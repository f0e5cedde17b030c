// A host in TypeScript, with nothing but node and the types of the native wire (docs/native.md).
//
//     node examples/native_host.mts [--allow info,edit] "What is in this folder?" [-- FLAGS OF POLYLECT]
//
// It starts polylect, streams the answer, asks you about each call (those of the categories in --allow it allows by
// itself), stops the turn on Ctrl-C, and ends with 0 if the turn ended well. Node runs it as it is from version 22.18 on.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { createInterface as createTerminal } from "node:readline/promises";
import { parseArgs } from "node:util";
const TURN = "turn-1";
const words = process.argv.slice(2);
const cut = words.includes("--") ? words.indexOf("--") : words.length;
const { values, positionals } = parseArgs({
    args: words.slice(0, cut),
    allowPositionals: true,
    options: { allow: { type: "string", default: "info" } },
});
const allowed = new Set(values.allow.split(","));
// The engine. A process group of its own: Ctrl-C in the terminal is for the host, which cancels the turn.
const engine = spawn("polylect", ["--native", ...words.slice(cut + 1)], {
    stdio: ["pipe", "pipe", "inherit"],
    detached: true,
});
const exited = new Promise((resolve) => {
    engine.once("exit", (code) => resolve(code ?? 1));
    engine.once("error", (error) => {
        console.error(`cannot start polylect: ${error.message}`);
        resolve(127);
    });
});
engine.stdin.on("error", () => { }); // it has ended, which `exited` reports
function send(command) {
    engine.stdin.write(JSON.stringify(command) + "\n");
}
function note(text) {
    process.stderr.write(`\n[${text}]\n`);
}
// Questions, one after the other. A question that is closed, because the turn was cancelled, needs no answer any more.
const open = new Map();
let last = Promise.resolve();
function answerLater(ask) {
    const closed = new AbortController();
    open.set(ask.ask, closed);
    last = last.then(async () => {
        const answer = await decide(ask, closed.signal);
        if (open.delete(ask.ask))
            send({ type: "answer", ask: ask.ask, ...answer });
    });
}
async function decide(ask, closed) {
    const { kind = "permission", name = "", category = "exec", options = [] } = ask; // what is left out is at its default
    if (kind === "permission" && allowed.has(category))
        return { verdict: "allow" };
    if (!process.stdin.isTTY)
        return { verdict: "deny", reason: "nobody is there to ask" };
    const question = [`\n${ask.title || name}`, ...options.map((one, at) => `  ${at + 1}  ${one.label}`)].join("\n");
    switch (kind) {
        case "permission": {
            const reply = await prompt(`${question}\nallow? [y]es, [a]lways this tool, [N]o `, closed);
            if (reply === "a")
                return { verdict: "allow", always: { kind: "tool", value: name } };
            return reply === "y" ? { verdict: "allow" } : { verdict: "deny", reason: "the user said no" };
        }
        case "confirm":
            return { verdict: (await prompt(`${question} [y/N] `, closed)) === "y" ? "allow" : "deny" };
        case "choice":
        case "text": {
            const reply = await prompt(`${question}\n> `, closed);
            const value = options[Number(reply) - 1]?.id ?? reply;
            return value ? { verdict: "allow", value } : { verdict: "cancelled" };
        }
        default:
            return { verdict: "cancelled", reason: `this host cannot show a ${kind}` };
    }
}
async function prompt(question, closed) {
    const terminal = createTerminal({ input: process.stdin, output: process.stderr });
    terminal.on("SIGINT", cancel); // while it reads, the terminal gives Ctrl-C to it and not to the process
    try {
        return (await terminal.question(question, { signal: closed })).trim();
    }
    catch {
        return ""; // closed
    }
    finally {
        terminal.close();
    }
}
// Ctrl-C: the turn is cancelled and ends as every turn does. Once more: the engine is ended.
let cancelled = false;
function cancel() {
    if (cancelled)
        engine.kill("SIGTERM");
    cancelled = true;
    send({ type: "cancel" });
}
process.on("SIGINT", cancel);
// What the engine says. TypeScript knows the fields of each type; types that are not known are ignored.
let ended = "";
function handle(event) {
    switch (event.type) {
        case "ready":
            if (!event.protocol_version.startsWith("1."))
                throw new Error(`no host for version ${event.protocol_version}`);
            return send({ type: "prompt", turn: TURN, text: positionals.join(" "), ref: "prompt" });
        case "reply":
            if (event.failure) {
                note(`refused: ${event.failure.message}`);
                if (event.ref === "prompt")
                    engine.stdin.end(); // no turn will come
            }
            return;
        case "text_delta":
            if (!event.agent)
                process.stdout.write(event.text); // not of sub-agents
            return;
        case "ask":
            return answerLater(event);
        case "ask_closed":
            open.get(event.ask)?.abort();
            open.delete(event.ask);
            return;
        case "tool_finished":
            return note(`${event.name}: ${event.outcome ?? "ok"}${event.reason ? `, ${event.reason}` : ""}`);
        case "failed":
            return note(event.failure.message);
        case "turn_ended": {
            if (event.turn !== TURN)
                return;
            const { input = 0, output = 0 } = event.usage ?? {};
            note(`${event.reason}, ${input} tokens in, ${output} out${event.failure ? `: ${event.failure.message}` : ""}`);
            ended = event.reason;
            engine.stdin.end(); // no more commands: the engine finishes and exits
        }
    }
}
for await (const line of createInterface({ input: engine.stdout }))
    handle(JSON.parse(line));
const code = await exited; // 1, 2 or 78 before `ready`: stderr says what to do
process.exitCode = code || (ended === "end" ? 0 : ended === "cancelled" ? 130 : 1);
