// native 1. Made of native-1.json by generate.py: do not edit.
// A field that is left out and whose default is not named is empty: "", 0, false, [], {} or null.
// Newer engines add types, fields and words: ignore those that are not here.

/** Any line that an engine writes. */
export type Event =
  | Ready
  | SettingChanged
  | Reply
  | ServerChanged
  | QueueChanged
  | ShellOutput
  | Settled
  | TurnStarted
  | UserMessage
  | StepStarted
  | TextDelta
  | ThinkingDelta
  | ArgsDelta
  | BlockEnded
  | ReplyEnded
  | StepEnded
  | TurnEnded
  | ToolCalled
  | Ask
  | AskClosed
  | ToolStarted
  | ToolOutput
  | ToolFinished
  | ToolCrashed
  | HostCall
  | HostCallEnded
  | Display
  | AgentStarted
  | AgentProgress
  | AgentEnded
  | RetryStarted
  | RetryEnded
  | CompactionStarted
  | CompactionEnded
  | CircuitChanged
  | RulesMatched
  | StructuredAnswer
  | StepTraced
  | ExtensionRejected
  | ExtensionFailed
  | ExtensionEvent
  | ContextUsed
  | CostChanged
  | BudgetExceeded
  | PlanChanged
  | Alive
  | Notice
  | Failed
  | Extra
  | UnknownEvent
  | MalformedEvent;

export interface EventFields {
  /** The session that it belongs to, where a wire carries several. */
  session?: string;
  /** The turn that it belongs to; empty for none. */
  turn?: string;
  /** The id of the agent that it is about; empty for the main one. */
  agent?: string;
  /** Counts the events of the session, from 1; 0 in the last line of an engine that crashes. */
  seq: number;
}

/** Any line that a host writes. */
export type Command =
  | Hello
  | Authenticate
  | OpenSession
  | CloseSession
  | Prompt
  | Steer
  | ChangeSteer
  | Cancel
  | Answer
  | HostReply
  | HostSays
  | Configure
  | AddContext
  | AddServer
  | ChangeServer
  | Grant
  | Compact
  | RunShell
  | Rewind
  | Query
  | Quit
  | UnknownCommand
  | MalformedCommand
  | Ping
  | Attach;

/**
 * The values that `data_type` and `value_type` name. `state` is one value of the property `state`, `model_card[]` a
 * list of values of the property `model_card`, and `[]` a list of plain JSON.
 */
export interface Values {
  text: Text;
  thinking: Thinking;
  image: Image;
  document: Document;
  file: File;
  link: Link;
  tool_call: ToolCall;
  tool_result: ToolResult;
  usage: Usage;
  message: Message;
  failure: Failure;
  abilities: Abilities;
  rule: Rule;
  server: Server;
  option: Option;
  plan_item: PlanItem;
  stream_rule: StreamRule;
  call_record: CallRecord;
  model_card: ModelCard;
  state: State;
  stats: Stats;
  ledger: Ledger;
  queue: Queue;
  shell_result: ShellResult;
  item: Item;
  fork_point: ForkPoint;
  session_opened: SessionOpened;
  session_card: SessionCard;
  cycled: Cycled;
  command_card: CommandCard;
  agent_card: AgentCard;
  server_card: ServerCard;
  context_part: ContextPart;
  context_report: ContextReport;
  file_content: FileContent;
  task_output: TaskOutput;
  exported: Exported;
  rewound: Rewound;
}

/** A value `V` and the name `N` of its type: one of `Values`, a list of them (`state[]`), a list, or plain JSON. */
export type Typed<V extends string, N extends string> =
  | { [K in keyof Values]: { [P in N]: K } & { [P in V]: Values[K] } }[keyof Values]
  | { [K in keyof Values]: { [P in N]: `${K}[]` } & { [P in V]: Values[K][] } }[keyof Values]
  | ({ [P in N]: "[]" } & { [P in V]: unknown[] })
  | ({ [P in N]?: undefined } & { [P in V]?: unknown });

/**
 * The engine can get commands. Comes once; the session may follow as a setting. `version`: the version of the engine;
 * `model`: the model in use; `mode`: the approval mode; `abilities`: what the engine offers.
 */
export interface Ready extends EventFields {
  type: "ready";
  version?: string;
  model?: string;
  /** Default: `"default"`. */
  mode?: string;
  abilities?: Abilities;
  /** The name of the wire. */
  protocol: "polylect-native";
  /** The version of the wire, as `major.minor`. */
  protocol_version: string;
  /** An id of these numbers: another process has another stream. */
  stream: string;
}

/** What an engine offers with the model in use. A host must not reject an event because of it. */
export interface Abilities {
  /** Whether it asks before calls run. Default: `true`. */
  approval?: boolean;
  /** Whether the model can think. */
  thinking?: boolean;
  /** The words for how hard it may think. */
  effort_levels?: string[];
  /** The approval modes that it has. Default: `["default", "auto_edit", "force"]`. */
  modes?: string[];
  /** Whether MCP servers can be added. */
  mcp?: boolean;
  /** Whether the model sees images; null if not known. */
  images?: boolean | null;
  /** What only one wire has words for. */
  extras?: Record<string, unknown>;
}

/** The setting `key` has the new `value`: session, model, mode, thinking, effort, name, title, commands ... */
export type SettingChanged = EventFields & {
  type: "setting_changed";
  key: string;
} & Typed<"value", "value_type">;

/** The one answer to a command. */
export type Reply = EventFields & {
  type: "reply";
  /** The `ref` of the command. */
  ref: string;
  /** Why the command was refused; null if it was accepted. */
  failure?: Failure | null;
} & Typed<"data", "data_type">;

/** What went wrong. */
export interface Failure {
  /** A word for programs. */
  code: string;
  /** A sentence for people, which says what to do where something can be done. */
  message: string;
  /** Who can do something about it. */
  owner: "engine" | "host" | "provider" | "tool" | "user";
  /** Whether trying again can help. */
  retryable?: boolean;
}

/**
 * An MCP server came up, failed or was removed. `name`: its name; `status`: its state; `tools`: the tools that it
 * has; `reason`: why it failed.
 */
export interface ServerChanged extends EventFields {
  type: "server_changed";
  name: string;
  status: "failed" | "ready" | "removed";
  tools?: string[];
  reason?: string;
}

/**
 * What waits has changed. `prompts`: the turns of the prompts that wait; `soon`: the texts that join the running turn
 * after the calls under way; `last`: the texts that join it before it would end.
 */
export interface QueueChanged extends EventFields {
  type: "queue_changed";
  prompts?: string[];
  soon?: string[];
  last?: string[];
}

/** A shell command of the user's has printed `text`. `command` is the ref of its `RunShell`, whose reply has all. */
export interface ShellOutput extends EventFields {
  type: "shell_output";
  command: string;
  text: string;
}

/** Nothing runs and nothing waits. */
export interface Settled extends EventFields {
  type: "settled";
}

/** A turn begins. Its `cause` is `engine` if no prompt began it. */
export interface TurnStarted extends EventFields {
  type: "turn_started";
  /** Default: `"prompt"`. */
  cause?: "engine" | "prompt";
}

/**
 * A message of the user entered the conversation. `text`: the message; `origin`: where it comes from; `attachments`:
 * what goes with it.
 */
export interface UserMessage extends EventFields {
  type: "user_message";
  text: string;
  /** Default: `"prompt"`. */
  origin?: "engine" | "follow_up" | "prompt" | "replay" | "steer";
  attachments?: (File | Image | Document | Link)[];
}

/** A file that the host named. The engine reads it when the turn begins. */
export interface File {
  type: "file";
  /** Its absolute path. */
  path: string;
}

/** An image. */
export interface Image {
  type: "image";
  /** Its type, such as `image/png`. */
  media_type: string;
  /** The image as base64. */
  data?: string;
  /** In stored history, the name of the file that has it (`sha256:...`), in the place of `data`. */
  blob?: string;
}

/** A file that the host sent with its content. */
export interface Document {
  type: "document";
  /** The name of the file. */
  name: string;
  /** Its type. */
  media_type: string;
  /** The content, if it is text. */
  text?: string;
  /** The content as base64, if it is not. */
  data?: string;
}

/** An address that the host mentions. Nothing is read. */
export interface Link {
  type: "link";
  /** The address. */
  uri: string;
  /** What to call it. */
  name?: string;
  /** The type of what is there. */
  media_type?: string;
}

/** A step begins: the model is asked. */
export interface StepStarted extends EventFields {
  type: "step_started";
}

/** `text` is the next piece of the model's text. */
export interface TextDelta extends EventFields {
  type: "text_delta";
  text: string;
}

/** `text` is the next piece of the model's reasoning. */
export interface ThinkingDelta extends EventFields {
  type: "thinking_delta";
  text: string;
}

/** `text` is the next piece of the JSON arguments of `call`, of the tool `name`, which has not been made yet. */
export interface ArgsDelta extends EventFields {
  type: "args_delta";
  call: string;
  name: string;
  text: string;
}

/** A `block` of the reply is complete. It equals its deltas, which came before. */
export interface BlockEnded extends EventFields {
  type: "block_ended";
  block: Text | Thinking | Image | Document | ToolCall | ToolResult;
}

/** A text of the user or of the model. */
export interface Text {
  type: "text";
  /** The text. */
  text: string;
}

/** Reasoning of the model. */
export interface Thinking {
  type: "thinking";
  /** What can be shown of it. */
  text: string;
  /** Lets the vendor accept it back unchanged. */
  signature?: string;
  /** Reasoning that only the vendor can read. */
  redacted?: string;
}

/** A call that the model asks for. */
export interface ToolCall {
  type: "tool_call";
  /** Its id. */
  call: string;
  /** The name of the tool. */
  name: string;
  /** The arguments. */
  args: Record<string, unknown>;
  /** Data of the vendor that has to be sent back with the call; and `UNPARSED`. */
  extra?: Record<string, unknown>;
}

/** The result of a call, as the model gets it, whether or not the tool ran. */
export interface ToolResult {
  type: "tool_result";
  /** The id of the call. */
  call: string;
  /** The name of the tool. */
  name: string;
  /** The text for the model. */
  output: string;
  /** How the call ended. Default: `"ok"`. */
  outcome?: "cancelled" | "denied" | "error" | "ok" | "skipped";
  /** Images for the model. */
  images?: Image[];
}

/**
 * The model has stopped writing. Calls may still run. `stop`: why it stopped; `usage`: what the reply took; `model`:
 * the model that wrote it; `request`: the vendor's id of the request; `error`: why it broke off.
 */
export interface ReplyEnded extends EventFields {
  type: "reply_ended";
  stop: "calls" | "cancelled" | "end" | "error" | "length" | "refused";
  usage?: Usage;
  model?: string;
  request?: string;
  error?: string;
}

/** Tokens in four counts that do not overlap, and their cost. A cost is never estimated. */
export interface Usage {
  /** Tokens that were read and not cached. */
  input?: number;
  /** Tokens that the model wrote. */
  output?: number;
  /** Tokens that came from the vendor's cache. */
  cache_read?: number;
  /** Tokens that were written to the vendor's cache. */
  cache_write?: number;
  /** Dollars; null if the price is not known. */
  cost?: number | null;
}

/** A step ends: the reply and all its calls are finished. */
export interface StepEnded extends EventFields {
  type: "step_ended";
}

/**
 * The last event of a turn. Every accepted prompt gets exactly one. `reason`: why it ended; `usage`: what the turn
 * took, all agents together; `steps`: how many steps it had; `failure`: what went wrong, if it did.
 */
export interface TurnEnded extends EventFields {
  type: "turn_ended";
  reason: "cancelled" | "end" | "error" | "length" | "limit" | "refused";
  usage?: Usage;
  steps?: number;
  failure?: Failure | null;
}

/**
 * The model made a call. `call`: the id of the call; `name`: the name of the tool; `args`: the arguments; `category`:
 * what the tool may do; `description`: one line for people.
 */
export interface ToolCalled extends EventFields {
  type: "tool_called";
  call: string;
  name: string;
  args?: Record<string, unknown>;
  /** Default: `"exec"`. */
  category?: "edit" | "exec" | "info" | "mcp";
  description?: string;
}

/** A question to a person. */
export interface Ask extends EventFields {
  type: "ask";
  /** The id of the question. */
  ask: string;
  /** What kind of answer it needs. Default: `"permission"`. */
  kind?: "choice" | "confirm" | "form" | "permission" | "text" | "url";
  /** The call that waits for the answer; empty for none. */
  call?: string;
  /** The tool of that call. */
  name?: string;
  /** The arguments of that call; the JSON Schema of a `form`. */
  args?: Record<string, unknown>;
  /** What the tool may do. Default: `"exec"`. */
  category?: "edit" | "exec" | "info" | "mcp";
  /** The question, in one line. */
  title?: string;
  /** Why it is asked. */
  reason?: string;
  /** The choices. */
  options?: Option[];
  /** Whether several can be chosen. */
  multiple?: boolean;
  /** The answer that is proposed. */
  default?: string;
  /** Milliseconds until it is closed by itself; 0 for never. */
  timeout_ms?: number;
  /** The text that the call replaces in a file, for hosts that show it; null where that is not known. */
  before?: string | null;
}

/** One choice of a question. */
export interface Option {
  /** What the answer names. */
  id: string;
  /** What the person sees. */
  label: string;
  /** An explanation. */
  description?: string;
  /** What it means, where the wire says so: allow_once, reject_always ... */
  kind?: string;
}

/**
 * The question `ask` needs no answer any more. Exactly one for each, before the next event of its call. `how` says
 * how it was closed (`unsaid`: the engine did not say), `reason` why it was denied.
 */
export interface AskClosed extends EventFields {
  type: "ask_closed";
  ask: string;
  how: "allowed" | "answered" | "cancelled" | "denied" | "timeout" | "unsaid";
  reason?: string;
}

/** The `call` of the tool `name` begins to run, in the process `pid`, if that is known; `before` as in `Ask`. */
export interface ToolStarted extends EventFields {
  type: "tool_started";
  call: string;
  name: string;
  pid?: number;
  before?: string | null;
}

/** The running `call` printed `text`; with `replace`, in the place of all its output before. */
export interface ToolOutput extends EventFields {
  type: "tool_output";
  call: string;
  text: string;
  replace?: boolean;
}

/** A call has ended. */
export interface ToolFinished extends EventFields {
  type: "tool_finished";
  /** The id of the call. */
  call: string;
  /** The name of the tool. */
  name: string;
  /** What the model is told. */
  output: string;
  /** How it ended. Default: `"ok"`. */
  outcome?: "cancelled" | "denied" | "error" | "ok" | "skipped";
  /** How to show the output. Default: `"text"`. */
  form?: "diff" | "image" | "text";
  /** Why it was denied, cancelled or skipped. */
  reason?: string;
  /** Data of the tool for hosts, such as the exit code. */
  metadata?: Record<string, unknown> | null;
  /** Images for the model. */
  images?: Image[];
}

/** The tool `name` raised `error`, which is a bug of the tool. The `ToolFinished` of its `call` still comes. */
export interface ToolCrashed extends EventFields {
  type: "tool_crashed";
  call: string;
  name: string;
  error: string;
}

/**
 * Work that only the host can do, as it offered in `Hello`. The host answers with `HostReply`, which lists results.
 * `call`: an id of this call; `method`: `hook` (callback, input, call), `mcp_message` (server_name, message), `tool`
 * (name, args, call), `read_text_file` (path, line, limit), `write_text_file` (path, content), `create_terminal`
 * (command, args, env, cwd, limit), `terminal_output`, `wait_for_terminal_exit`, `kill_terminal` or
 * `release_terminal` (terminal); `params`: the fields of that method. Paths are absolute.
 */
export interface HostCall extends EventFields {
  type: "host_call";
  call: string;
  method: string;
  params?: unknown;
}

/** The engine no longer waits for the `HostCall` with the id `call`. */
export interface HostCallEnded extends EventFields {
  type: "host_call_ended";
  call: string;
}

/** The host should show something (`method`: a notification, a widget ...) with `params`, without an answer. */
export interface Display extends EventFields {
  type: "display";
  method: string;
  params?: Record<string, unknown>;
}

/**
 * The agent that the event names begins. `parent`: the id of the agent that started it; `call`: the call that started
 * it; `name`: the kind of agent; `task`: what it is asked to do; `background`: whether its parent does not wait for
 * it.
 */
export interface AgentStarted extends EventFields {
  type: "agent_started";
  parent?: string;
  call?: string;
  name?: string;
  task?: string;
  background?: boolean;
}

/**
 * What an agent has done so far. `text`: what it does now; `usage`: what it took so far; `calls`: how many calls it
 * made.
 */
export interface AgentProgress extends EventFields {
  type: "agent_progress";
  text?: string;
  usage?: Usage;
  calls?: number;
}

/** An agent has ended. */
export interface AgentEnded extends EventFields {
  type: "agent_ended";
  /** Whether it did what it was asked. Default: `true`. */
  ok?: boolean;
  /** Its last text. */
  summary?: string;
  /** Why it did not end by itself; the code is `cancelled` if it was stopped. */
  failure?: Failure | null;
}

/**
 * A request failed and is repeated. `attempt`: the number of the attempt; `most`: how many attempts there may be;
 * `delay_ms`: milliseconds until it is made; `error`: why the request failed.
 */
export interface RetryStarted extends EventFields {
  type: "retry_started";
  attempt: number;
  most: number;
  delay_ms: number;
  error?: string;
}

/** The repeated request was answered (`ok`), or given up after `attempt` because of `error`. */
export interface RetryEnded extends EventFields {
  type: "retry_ended";
  ok: boolean;
  attempt?: number;
  error?: string;
}

/** The beginning of the conversation is being replaced by a summary, for this `reason`. */
export interface CompactionStarted extends EventFields {
  type: "compaction_started";
  /** Default: `"threshold"`. */
  reason?: "idle" | "manual" | "overflow" | "threshold";
}

/**
 * A compaction has ended. `ok`: whether it succeeded; `summary`: the summary; `before`: tokens before; `after`:
 * tokens after; `first_kept`: the first message, or entry, that is still there; `error`: why it failed.
 */
export interface CompactionEnded extends EventFields {
  type: "compaction_ended";
  /** Default: `true`. */
  ok?: boolean;
  summary?: string;
  before?: number;
  after?: number;
  first_kept?: string;
  error?: string;
}

/** A model service that keeps failing is no longer asked, or is asked again. */
export interface CircuitChanged extends EventFields {
  type: "circuit_changed";
  /** The service. */
  primary: string;
  /** `open`: not asked; `half_open`: tried again; `closed`: it works again. */
  state: "closed" | "half_open" | "open";
  /** The service that is asked in its place; empty for none. */
  fallback?: string;
  /** Why it failed. */
  error?: string;
}

/** The model's text matched these `rules`. It is reminded of them and asked again. */
export interface RulesMatched extends EventFields {
  type: "rules_matched";
  rules: StreamRule[];
}

/** A reminder that is sent to the model when its reply matches a pattern. */
export interface StreamRule {
  /** The name of the rule, for events about it. */
  name: string;
  /** A regular expression that is searched for in the reply. */
  pattern: string;
  /** The reminder. */
  text: string;
  /** The file that the rule comes from. */
  path?: string;
}

/** The answer of a turn whose answer has a JSON Schema is `value`. At most one for each turn, before its end. */
export interface StructuredAnswer extends EventFields {
  type: "structured_answer";
  value: unknown;
}

/**
 * What one model request took, after its step ended; only where traces are on. Times are in nanoseconds since 1970.
 */
export interface StepTraced extends EventFields {
  type: "step_traced";
  /** Counts the requests of the engine. */
  number: number;
  /** The provider that was asked. */
  provider: string;
  /** The model that was asked. */
  model: string;
  /** Why the model stopped. */
  stop: "calls" | "cancelled" | "end" | "error" | "length" | "refused";
  /** What the reply took. */
  usage: Usage;
  /** The calls of the step. */
  calls: CallRecord[];
  /** When the request was made. */
  began: number;
  /** When the last chunk of the reply came. */
  ended: number;
  /** Why it failed. */
  error?: string;
}

/** One tool call of a trace. Times are in nanoseconds since 1970. */
export interface CallRecord {
  /** The id of the call. */
  call: string;
  /** The name of the tool. */
  name: string;
  /** The arguments. */
  args: Record<string, unknown>;
  /** The output for the model. */
  output: string;
  /** How it ended. */
  outcome: "cancelled" | "denied" | "error" | "ok" | "skipped";
  /** When it started. */
  began: number;
  /** When it ended. */
  ended: number;
}

/** An extension, or a part of it, is not used. */
export interface ExtensionRejected extends EventFields {
  type: "extension_rejected";
  /** Its path. */
  extension: string;
  /** The part: `hooks`, `commands` or `tools`. */
  surface: string;
  /** `load`, `config`, `duplicate` or `reserved`. */
  code: string;
  /** A sentence for people. */
  message: string;
}

/**
 * A hook or a command of an extension raised, or took too long. `extension`: its path; `moment`: the hook, or the
 * command; `error`: what went wrong.
 */
export interface ExtensionFailed extends EventFields {
  type: "extension_failed";
  extension: string;
  moment: string;
  error: string;
}

/**
 * An event of an extension's own, for hosts that know it. `extension`: the name of the extension; `kind`: the type of
 * the event; `payload`: the content.
 */
export interface ExtensionEvent extends EventFields {
  type: "extension_event";
  extension: string;
  kind: string;
  payload?: unknown;
}

/** Of `size` tokens in the model's window, `used` are in use. A size of 0 is not known. */
export interface ContextUsed extends EventFields {
  type: "context_used";
  used: number;
  size?: number;
}

/** The cost of the session so far is `total`; `rows` has one row for each model request. */
export interface CostChanged extends EventFields {
  type: "cost_changed";
  total: Usage;
  rows?: Record<string, unknown>[];
}

/** A limit was passed; the turn ends. */
export interface BudgetExceeded extends EventFields {
  type: "budget_exceeded";
  /** Which limit: `cost`, `tokens` ... */
  reason: string;
  /** What was used, as a text. */
  observed: string;
  /** The limit, as a text. */
  limit: string;
}

/** The plan of the agent has these `items`, in the place of those before. */
export interface PlanChanged extends EventFields {
  type: "plan_changed";
  items: PlanItem[];
}

/** One entry of a plan. */
export interface PlanItem {
  /** What is to be done. */
  text: string;
  /** How far it is. Default: `"pending"`. */
  status?: "completed" | "in_progress" | "pending";
  /** How important it is. Default: `"medium"`. */
  priority?: "high" | "low" | "medium";
  /** An id, where the wire has one. */
  id?: string;
}

/** Nothing new, but the turn still runs; if `call` is not empty, on that call of the tool `name`. */
export interface Alive extends EventFields {
  type: "alive";
  call?: string;
  name?: string;
}

/** `text` is a sentence of the engine for the person; `level` says how important it is. */
export interface Notice extends EventFields {
  type: "notice";
  text: string;
  /** Default: `"info"`. */
  level?: "info" | "warning";
}

/** Something went wrong, as `failure` says, and nothing ended by it. */
export interface Failed extends EventFields {
  type: "failed";
  failure: Failure;
}

/** An event of a `kind` that only one family of engines has, with its `data`: plugins, browsers, rate limits ... */
export interface Extra extends EventFields {
  type: "extra";
  kind: string;
  data?: Record<string, unknown>;
}

/** A well-formed frame (`raw`) of a `kind` that this side does not know. It can be passed on or dropped. */
export interface UnknownEvent extends EventFields {
  type: "unknown";
  kind: string;
  /** In base64. */
  raw?: string;
}

/** `line`, or its beginning, is no frame; `why` says what is wrong with it. */
export interface MalformedEvent extends EventFields {
  type: "malformed";
  /** In base64. */
  line: string;
  why: string;
}

/**
 * The host introduces itself and offers what it can do. An engine that gets it reports its `tools`, `agents`,
 * `skills`, `commands` and `cwd` as settings.
 */
export interface Hello {
  type: "hello";
  /** The name of the host. */
  host?: string;
  /** The version of the host. */
  version?: string;
  /**
   * `hooks`: for each moment (PreToolUse ...) a list of `{"matcher": str | null, "ids": [str], "timeout": seconds}`;
   * `servers`: names of MCP servers inside the host; `tools`: tools that the host runs, as `{"name", "description",
   * "parameters"}`; `files`: `{"read": bool, "write": bool}`, whether the engine may ask for text files; `terminal`:
   * whether it may run commands in terminals of the host (`HostCall` has the methods).
   */
  offers?: Record<string, unknown>;
  /** The session that it belongs to, where a wire carries several. */
  session?: string;
  /** An id; a command that has one gets exactly one `Reply` with the same. */
  ref?: string;
}

/** Logs in, or out. */
export interface Authenticate {
  type: "authenticate";
  /** A method that the engine named; empty logs out. */
  method?: string;
  /** The session that it belongs to, where a wire carries several. */
  session?: string;
  /** An id; a command that has one gets exactly one `Reply` with the same. */
  ref?: string;
}

/** Goes on in another session. The answer is a `SessionOpened`. */
export interface OpenSession {
  type: "open_session";
  /** `new`; `resume` for a stored one; `load` for one whose messages are replayed as events; `fork` for a copy. */
  how: "fork" | "load" | "new" | "resume";
  /** The id of the session, or the path of its file. */
  target?: string;
  /** For a fork, the entry before which the copy ends; empty for a copy of everything. */
  at?: string;
  /** For a new session, the session that it comes from. */
  parent?: string;
  /**
   * For `resume` without a target, a folder of sessions: its newest one is resumed, or a new one is begun in it. If
   * the open session is there, nothing changes.
   */
  within?: string;
  /** The folder that the session is about. */
  cwd?: string;
  /** Other folders that may be used. */
  folders?: string[];
  /** MCP servers to start. */
  servers?: Server[];
  /** What the model is told beside the engine's own instructions, for a session of its own. */
  system_prompt?: string;
  /** The session that it belongs to, where a wire carries several. */
  session?: string;
  /** An id; a command that has one gets exactly one `Reply` with the same. */
  ref?: string;
}

/**
 * An MCP server, as a host or the settings describe it. With a `url` and no `command`, the transport is `http`; `sse`
 * has to be named.
 */
export interface Server {
  /** Its name; its tools are called `mcp__name__tool`. */
  name: string;
  /**
   * How it is reached. `streamable-http` is another name of `http`; `host` is a server inside the host. Default:
   * `"stdio"`.
   */
  transport?: "host" | "http" | "sse" | "stdio" | "streamable-http";
  /** The program, for `stdio`. */
  command?: string;
  /** Its arguments. */
  args?: string[];
  /** Variables to add to its environment. */
  env?: Record<string, string>;
  /** The address, for `http` and `sse`. */
  url?: string;
  /** Headers of each request. */
  headers?: Record<string, string>;
  /** What only one wire has words for. */
  extras?: Record<string, unknown>;
}

/** Cancels what runs in a session and closes it. */
export interface CloseSession {
  type: "close_session";
  /** The id of the session; empty for the open one. */
  target?: string;
  /** Whether it is also deleted from disk. */
  delete?: boolean;
  /** The session that it belongs to, where a wire carries several. */
  session?: string;
  /** An id; a command that has one gets exactly one `Reply` with the same. */
  ref?: string;
}

/** Begins a turn, or queues one while another runs. */
export interface Prompt {
  type: "prompt";
  /** The id of the turn, chosen by the host. */
  turn: string;
  /** The prompt. */
  text: string;
  /** Files, images, documents and links that go with it. */
  attachments?: (File | Image | Document | Link)[];
  /** What to do while another turn runs: `queue`, `refuse` or `interrupt`. Default: `"queue"`. */
  busy?: "interrupt" | "queue" | "refuse";
  /** False only adds the text to the conversation and asks no model. Default: `true`. */
  query?: boolean;
  /** Whether a slash at the beginning is text and no command. */
  verbatim?: boolean;
  /** The JSON Schema of an object that the answer has to fit; the turn then has a `StructuredAnswer`. */
  schema?: Record<string, unknown>;
  /** Dollars that the turn may cost; 0 for no cap of its own. It ends after the request that passes it. */
  max_cost?: number;
  /** Tokens that the turn may take, in and out together; 0 for no cap of its own. */
  max_tokens?: number;
  /** The session that it belongs to, where a wire carries several. */
  session?: string;
  /** An id; a command that has one gets exactly one `Reply` with the same. */
  ref?: string;
}

/** Adds a message to the running turn. */
export interface Steer {
  type: "steer";
  /** The message. */
  text: string;
  /** Files, images, documents and links that go with it. */
  attachments?: (File | Image | Document | Link)[];
  /** `soon` after the calls under way, `last` before the turn would end. Default: `"soon"`. */
  when?: "last" | "soon";
  /** If no turn runs: `refuse` it, or `keep` it for the next one. Default: `"refuse"`. */
  idle?: "keep" | "refuse";
  /** The id of the sub-agent that is meant; empty for the main agent. */
  to?: string;
  /** The session that it belongs to, where a wire carries several. */
  session?: string;
  /** An id; a command that has one gets exactly one `Reply` with the same. */
  ref?: string;
}

/** Changes a message that waits for the running turn, or for the next. The answer says whether there was one. */
export interface ChangeSteer {
  type: "change_steer";
  /** Its text; of several with the same text the first is meant. */
  text: string;
  /** The moment that it waits for. Default: `"last"`. */
  when?: "last" | "soon";
  /** `remove` drops it; `promote` makes it the last of those that are delivered soon. Default: `"remove"`. */
  action?: "promote" | "remove";
  /** The session that it belongs to, where a wire carries several. */
  session?: string;
  /** An id; a command that has one gets exactly one `Reply` with the same. */
  ref?: string;
}

/** Stops something that runs. Does nothing if it does not run. */
export interface Cancel {
  type: "cancel";
  /** What to stop. Default: `"turn"`. */
  what?: "agent" | "compaction" | "prompt" | "retry" | "shell" | "steers" | "turn";
  /** The id of the turn, agent or prompt; empty for the running one, or for all agents. */
  target?: string;
  /** Whether prompts that wait are kept or dropped. Default: `"drop"`. */
  queued?: "drop" | "keep";
  /** The session that it belongs to, where a wire carries several. */
  session?: string;
  /** An id; a command that has one gets exactly one `Reply` with the same. */
  ref?: string;
}

/** Answers an ask. Everything but `allow` is a no. */
export interface Answer {
  type: "answer";
  /** The id of the ask. */
  ask: string;
  /** The decision. */
  verdict: "allow" | "cancelled" | "deny";
  /** The chosen option, the text, or the values of a form. */
  value?: unknown;
  /** Why not, for the model. */
  reason?: string;
  /** Arguments to run the call with, instead of those that the model gave. */
  args?: Record<string, unknown> | null;
  /** A rule that is added, so that this is not asked again. */
  always?: Rule | null;
  /** Whether the turn ends too. */
  interrupt?: boolean;
  /** The session that it belongs to, where a wire carries several. */
  session?: string;
  /** An id; a command that has one gets exactly one `Reply` with the same. */
  ref?: string;
}

/** A standing decision on calls. */
export interface Rule {
  /** What `value` is: a category, a tool, the beginning of a command, a whole command, a path or a domain. */
  kind: "category" | "command" | "domain" | "path" | "prefix" | "tool";
  /** What the rule is about; files at or below a path. With a `tool`, a path is a pattern where it has `*` or `?`. */
  value?: string;
  /** For a path: whether writing is meant, and not only reading. Default: `true`. */
  write?: boolean;
  /** The decision. Default: `"allow"`. */
  effect?: "allow" | "ask" | "deny";
  /** Only calls of this tool; empty for all. */
  tool?: string;
}

/** The host's answer to a `HostCall`. */
export interface HostReply {
  type: "host_reply";
  /** The id of that call. */
  call: string;
  /** The result, in the form that the method has. */
  result?: unknown;
  /** Why there is none. */
  error?: string;
  /** Whether more will come: `result` is all of the output so far. */
  partial?: boolean;
  /** A word for the kind of error: `missing` for a file that is not there. */
  code?: string;
  /** The session that it belongs to, where a wire carries several. */
  session?: string;
  /** An id; a command that has one gets exactly one `Reply` with the same. */
  ref?: string;
}

/**
 * A message of the host that the engine did not ask for, such as a server inside the host whose tools have changed.
 */
export interface HostSays {
  type: "host_says";
  /** What it is about: `mcp_message` ... */
  method: string;
  /** The content. */
  params?: unknown;
  /** The session that it belongs to, where a wire carries several. */
  session?: string;
  /** An id; a command that has one gets exactly one `Reply` with the same. */
  ref?: string;
}

/** Changes settings for what follows. Others stay as they are. */
export interface Configure {
  type: "configure";
  /** Values by name: model, mode, thinking, effort, name, steering_mode, auto_retry ... */
  settings: Record<string, unknown>;
  /** The session that it belongs to, where a wire carries several. */
  session?: string;
  /** An id; a command that has one gets exactly one `Reply` with the same. */
  ref?: string;
}

/** Adds text to the conversation without a turn: rules, a persona, a summary of what came before. */
export interface AddContext {
  type: "add_context";
  /** The text. */
  text: string;
  /** The session that it belongs to, where a wire carries several. */
  session?: string;
  /** An id; a command that has one gets exactly one `Reply` with the same. */
  ref?: string;
}

/** Starts an MCP server. A `ServerChanged` says when it is up, or why not. */
export interface AddServer {
  type: "add_server";
  /** The server and how it is reached. */
  server: Server;
  /** The session that it belongs to, where a wire carries several. */
  session?: string;
  /** An id; a command that has one gets exactly one `Reply` with the same. */
  ref?: string;
}

/** Changes the state of an MCP server. */
export interface ChangeServer {
  type: "change_server";
  /** Its name. */
  name: string;
  /** What to do with it. */
  action: "disable" | "enable" | "reconnect" | "remove";
  /** The session that it belongs to, where a wire carries several. */
  session?: string;
  /** An id; a command that has one gets exactly one `Reply` with the same. */
  ref?: string;
}

/** Gives a standing permission or a larger budget, or takes a permission back. */
export interface Grant {
  type: "grant";
  /** The permission. */
  rule?: Rule | null;
  /** Tokens to add to the budget. */
  tokens?: number;
  /** Dollars to add to the budget. */
  cost?: number;
  /** Whether the rule is removed instead. */
  revoke?: boolean;
  /** An id of the grant, for the host. */
  id?: string;
  /** When it ends, in milliseconds since 1970; 0 for never. */
  until_ms?: number;
  /** The session that it belongs to, where a wire carries several. */
  session?: string;
  /** An id; a command that has one gets exactly one `Reply` with the same. */
  ref?: string;
}

/** Replaces the beginning of the conversation by a summary. */
export interface Compact {
  type: "compact";
  /** What the summary should keep. */
  instructions?: string;
  /** What to do while a turn runs: `refuse`, or `interrupt` the turn. Default: `"refuse"`. */
  busy?: "interrupt" | "refuse";
  /** The session that it belongs to, where a wire carries several. */
  session?: string;
  /** An id; a command that has one gets exactly one `Reply` with the same. */
  ref?: string;
}

/** Runs a shell command of the user's, outside any turn. The model sees its output with the next prompt. */
export interface RunShell {
  type: "run_shell";
  /** The command line. */
  command: string;
  /** Whether its output stays out of the conversation, so that the model never sees it. */
  private?: boolean;
  /** The session that it belongs to, where a wire carries several. */
  session?: string;
  /** An id; a command that has one gets exactly one `Reply` with the same. */
  ref?: string;
}

/**
 * Restores files to their content before a message, or takes that message and all after it out of the conversation.
 */
export interface Rewind {
  type: "rewind";
  /** The id of a turn, or of an entry; for a conversation, of a turn. */
  to: string;
  /** Whether nothing is changed, and only the answer says what would be. For files only. */
  dry_run?: boolean;
  /** What is restored. Default: `"files"`. */
  what?: "conversation" | "files";
  /** The session that it belongs to, where a wire carries several. */
  session?: string;
  /** An id; a command that has one gets exactly one `Reply` with the same. */
  ref?: string;
}

/** Asks for something and changes nothing. `vocab/answers.py` lists the answers. */
export interface Query {
  type: "query";
  /** The question: state, messages, stats, models, context, servers, sessions, export ... */
  what: string;
  /** Arguments of the question, such as `path` for export. */
  args?: Record<string, unknown>;
  /** The session that it belongs to, where a wire carries several. */
  session?: string;
  /** An id; a command that has one gets exactly one `Reply` with the same. */
  ref?: string;
}

/** Ends the engine. */
export interface Quit {
  type: "quit";
  /** Why, for the log. */
  reason?: string;
  /** The session that it belongs to, where a wire carries several. */
  session?: string;
  /** An id; a command that has one gets exactly one `Reply` with the same. */
  ref?: string;
}

/** A well-formed frame that is no command of this dialect. Whoever handles commands answers it. */
export interface UnknownCommand {
  type: "unknown";
  /** The type of the frame. */
  kind: string;
  /** The frame. In base64. */
  raw?: string;
  /** The session that it belongs to, where a wire carries several. */
  session?: string;
  /** An id; a command that has one gets exactly one `Reply` with the same. */
  ref?: string;
}

/** A line that is no frame. The codec has answered it already; this is for the log. */
export interface MalformedCommand {
  type: "malformed";
  /** The line, or its beginning. In base64. */
  line: string;
  /** What is wrong with it. */
  why: string;
  /** The session that it belongs to, where a wire carries several. */
  session?: string;
  /** An id; a command that has one gets exactly one `Reply` with the same. */
  ref?: string;
}

/** Is answered at once by a `reply`, whatever the engine does. */
export interface Ping {
  type: "ping";
  ref?: string;
  session?: string;
}

/** Asks for the events of a session again that came after one, and then for all that follow. */
export interface Attach {
  type: "attach";
  /** The `seq` of the last event that the host has; 0 for all that are kept. */
  after?: number;
  /** The `stream` that this number belongs to, from `ready`; empty if there was only one. */
  stream?: string;
  ref?: string;
  session?: string;
}

/** One message of a conversation. Results of calls have a role of their own. */
export interface Message {
  /** Whose it is. */
  role: "assistant" | "tool" | "user";
  /** Its blocks. */
  content: (Text | Thinking | Image | Document | ToolCall | ToolResult)[];
  /** For a reply: why the model stopped. */
  stop?: "calls" | "cancelled" | "end" | "error" | "length" | "refused" | null;
  /** For a reply: what it took. */
  usage?: Usage | null;
  /** For a reply: the model that wrote it. */
  model?: string;
  /** For a reply: the provider of the model. */
  provider?: string;
}

/** A model that can be used now. */
export interface ModelCard {
  /** The name of the provider that serves it. */
  provider: string;
  /** The name of the model, as `Configure` takes it. */
  name: string;
  /** The wire of the vendor: `anthropic`, `openai` ... */
  api?: string;
  /** The address of the service, if it is not the vendor's own. */
  base_url?: string;
  /** Tokens that fit into a request and its reply; 0 if not known. */
  window?: number;
  /** Tokens that a reply may have; 0 if not known. */
  max_output?: number;
  /** Whether it can think. */
  thinking?: boolean;
  /** The words for how hard it may think. */
  effort_levels?: string[];
  /** Whether it sees images; null if not known. */
  images?: boolean | null;
  /** Dollars for a million tokens: input, output, cache read, cache write; null for one that is not known. */
  prices?: (number | null)[];
}

/** The answer to the query `state`. */
export interface State {
  /** The id of the session. */
  session?: string;
  /** The model in use. */
  model?: string;
  /** The approval mode. */
  mode?: string;
  /** How hard the model thinks, one of `LEVELS`. */
  thinking?: string;
  /** Whether a turn runs. */
  busy?: boolean;
  /** Whether the conversation is being compacted. */
  compacting?: boolean;
  /** How many prompts and messages wait. */
  queued?: number;
  /** How many messages the conversation has. */
  messages?: number;
  /** The name that the user gave the session. */
  name?: string;
  /** The provider in use. */
  provider?: string;
  /** What is known of the model in use. */
  card?: ModelCard | null;
  /** The path of the session's log; empty if it is not stored. */
  file?: string;
  /** How many messages for the running turn are delivered at a time. Default: `"one-at-a-time"`. */
  steering_mode?: "all" | "one-at-a-time";
  /** How many messages for the end of a turn are delivered at a time. Default: `"one-at-a-time"`. */
  follow_up_mode?: "all" | "one-at-a-time";
  /** What a message for the running turn does to calls under way. Default: `"immediate"`. */
  interrupt_mode?: "immediate" | "wait";
  /** Whether a full window is compacted by itself. Default: `true`. */
  auto_compaction?: boolean;
  /** Whether failed requests are repeated. Default: `true`. */
  auto_retry?: boolean;
  /** Other settings, by name. */
  settings?: Record<string, unknown>;
  /** Whether nothing runs and no prompt waits, as `Settled` reports it. */
  settled?: boolean;
  /** Whether sub-agents work in the background. */
  background?: boolean;
  /** Tokens in the model's window; null if not known. */
  context?: number | null;
  /** The model's list of steps. */
  plan?: PlanItem[];
}

/** The answer to the query `stats`: counts over the whole session. */
export interface Stats {
  /** The id of the session. */
  session?: string;
  /** Messages of the user. */
  users?: number;
  /** Messages of the model. */
  assistants?: number;
  /** Calls that the model made. */
  calls?: number;
  /** Results of calls. */
  results?: number;
  /** Tokens and cost of everything. */
  usage?: Usage;
  /** The path of the session's log; empty if it is not stored. */
  file?: string;
}

/** The answer to the query `cost`. */
export interface Ledger {
  /** Tokens and cost of the session. */
  total?: Usage;
  /** One row for each model request, with turn, model, provider, cost_usd and usage. */
  rows?: Record<string, unknown>[];
}

/** The answer to the query `queue`: what waits. */
export interface Queue {
  /** The turns of the prompts that wait. */
  prompts?: string[];
  /** The texts that join the running turn after the calls under way. */
  soon?: string[];
  /** The texts that join it before it would end. */
  last?: string[];
}

/** The result of a shell command that the user ran. */
export interface ShellResult {
  /** The command line. */
  command: string;
  /** The end of what it printed. */
  output?: string;
  /** The exit code; null if it did not exit. */
  code?: number | null;
  /** Whether it was cancelled. */
  cancelled?: boolean;
  /** Whether `output` is only a part. */
  truncated?: boolean;
  /** A file with all of the output, if that is more. */
  path?: string;
  /** How many lines it printed. */
  lines?: number;
  /** How many bytes it printed. */
  size?: number;
}

/** A message with its place in the log. */
export interface Item {
  /** The id of its entry. */
  id: string;
  /** When it was added, in milliseconds since 1970. */
  at: number;
  /** The message. */
  message: Message;
  /**
   * `message`, `shell` for a command of the user's, or `summary` for what replaces all messages before it. Default:
   * `"message"`.
   */
  kind?: "message" | "shell" | "summary";
  /** The result, for a command of the user's. */
  shell?: ShellResult | null;
  /** The id of the model request that the message came from. */
  request?: string;
  /** For a summary, how many tokens there were before it. */
  before?: number;
  /** For a prompt, the id of its turn. */
  turn?: string;
}

/** A message of the user's before which the session can be forked. */
export interface ForkPoint {
  /** The id of its entry, for `OpenSession.at`. */
  entry: string;
  /** The message. */
  text: string;
}

/** The answer to `OpenSession`. */
export interface SessionOpened {
  /** The id of the session that is open now. */
  session: string;
  /** The path of its log; empty if it is not stored. */
  file?: string;
  /** The message that a fork left out, for the user to change. */
  text?: string;
  /** Whether the session was not changed, because a hook or the host did not want it. */
  cancelled?: boolean;
  /** With `OpenSession.within`, whether there was one in that folder. */
  resumed?: boolean;
}

/** A stored session. */
export interface SessionCard {
  /** The id, for `resume`. */
  id: string;
  /** The folder that the session is about. */
  cwd?: string;
  /** The name that the user gave it. */
  name?: string;
  /** When something was last added, in milliseconds since 1970. */
  at?: number;
  /** How many messages it has. */
  messages?: number;
  /** The beginning of the first prompt. */
  first?: string;
  /** Whether a client has put it aside; clients of ACP list such sessions only if they ask for them. */
  archived?: boolean;
}

/** The answer to `Configure({"cycle": ...})`: the value after the change. */
export interface Cycled {
  /** The model, if that was changed. */
  model?: ModelCard | null;
  /** How hard it thinks. */
  thinking?: string;
}

/** A slash command. */
export interface CommandCard {
  /** Its name, without the slash. */
  name: string;
  /** What it does. */
  description?: string;
  /** What arguments it takes. */
  hint?: string;
  /** Whether the engine itself has it, and no file or extension. */
  builtin?: boolean;
}

/** A sub-agent that runs. */
export interface AgentCard {
  /** Its id, as in events. */
  id: string;
  /** Its kind. */
  name?: string;
  /** What it was asked to do. */
  task?: string;
  /** Whether its parent does not wait for it. */
  background?: boolean;
}

/** An MCP server and its state. */
export interface ServerCard {
  /** Its name. */
  name: string;
  /** Its state. Default: `"pending"`. */
  status?: "connected" | "disabled" | "failed" | "pending";
  /** The tools that it has. */
  tools?: string[];
  /** Why it failed. */
  error?: string;
  /** How it is reached: `stdio`, `http`, `sse` or `host`. */
  transport?: string;
  /** What it calls itself, and its version. */
  version?: string;
}

/** One part of what fills the model's window. */
export interface ContextPart {
  /** What it is: system prompt, tools, messages ... */
  name: string;
  /** An estimate of its size. */
  tokens: number;
}

/** The answer to the query `context`: what fills the model's window. */
export interface ContextReport {
  /** Tokens in use: what the service last reported, plus an estimate for what came since. */
  used: number;
  /** The size of the window; 0 if not known. */
  size?: number;
  /** The parts, as estimates. */
  parts?: ContextPart[];
}

/** The answer to the query `file`: the content of a file that the model may read without a question. */
export interface FileContent {
  /** The absolute path, with links resolved. */
  path: string;
  /** The first bytes of it. In base64. */
  data: string;
  /** Whether the file has more. */
  truncated?: boolean;
}

/** The answer to the query `agent_output`: what a command in the background has printed. */
export interface TaskOutput {
  /** The end of it. */
  output: string;
  /** How many bytes it has printed. */
  size: number;
  /** Whether `output` is only a part. */
  truncated: boolean;
}

/** The answer to the query `export`. */
export interface Exported {
  /** The file that was written. */
  path: string;
}

/** The answer to `Rewind`: what was restored, or would be. */
export interface Rewound {
  /** The paths of the files. */
  files?: string[];
  /** Lines that are added. */
  insertions?: number;
  /** Lines that are removed. */
  deletions?: number;
  /** For a conversation, the message that was taken out, for the user to change. */
  prompt?: string;
}
