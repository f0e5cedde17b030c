// What the types of the native wire know and refuse. tests/interop/test_typescript.py compiles it; nothing runs it.

import type { Command, Event } from "../../schemas/native.d.ts";

export function describe(event: Event): string {
  switch (event.type) {
    case "text_delta":
      return event.text;
    case "block_ended":
      return event.block.type === "tool_call" ? event.block.name : event.block.type;
    case "reply":
      if (event.data_type === "state") return event.data.session ?? "";
      if (event.data_type === "model_card[]") return event.data.map((model) => model.name).join();
      // @ts-expect-error: plain JSON can be anything
      return event.data.length;
    case "setting_changed":
      // @ts-expect-error: a server has a name, no session
      return event.value_type === "server" ? event.value.session : event.key;
    case "turn_ended":
      // @ts-expect-error: a turn ends for one of the reasons in the schema
      return event.reason === "tired" ? "" : (event.failure?.message ?? event.turn ?? "");
    default:
      return `${event.seq}`;
  }
}

export const right: Command[] = [
  { type: "ping" },
  { type: "attach", after: 12, stream: "x" },
  { type: "answer", ask: "a", verdict: "allow", always: { kind: "tool", value: "Bash" } },
];
export const wrong: Command[] = [
  // @ts-expect-error: a prompt has a text
  { type: "prompt", turn: "t" },
  // @ts-expect-error: there is no such command
  { type: "promt", turn: "t", text: "x" },
  // @ts-expect-error: commands have no number
  { type: "ping", seq: 1 },
];
