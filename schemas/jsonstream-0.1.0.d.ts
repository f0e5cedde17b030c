// jsonstream 0.1.0. Made of jsonstream-0.1.0.json by generate.py: do not edit.
// A field that is left out and whose default is not named is empty: "", 0, false, [], {} or null.
// Newer engines add types, fields and words: ignore those that are not here.

/** Any line that an engine writes. */
export type Event =
  | OldReady
  | StreamStart
  | TextDelta
  | Thinking
  | ToolRequest
  | ToolRunning
  | ToolResult
  | ToolCancelled
  | Info
  | McpReady
  | Pong
  | OldStreamEnd
  | OldError
  | OldConfigChanged;

/** Any line that a host writes. */
export type Command =
  | OldMessage
  | Stop
  | ToolApprove
  | ToolDeny
  | InitHistory
  | SetMode
  | AddMcpServer
  | Ping
  | OldSetConfig;

export interface OldReady {
  type: "ready";
  version: string;
  session_id?: string | null;
  capabilities: OldCapabilities;
}

/** Capabilities in 0.1.0. `ready` has the three without a default, `config_changed` has all. */
export interface OldCapabilities {
  tool_approval: boolean;
  image_input?: "supported" | "unsupported" | "unknown";
  thinking: boolean;
  effort?: boolean;
  effort_levels?: string[];
  modes?: ("default" | "auto_edit" | "force" | "yolo" | "plan" | "dont_ask")[];
  current_mode?: "default" | "auto_edit" | "force" | "yolo" | "plan" | "dont_ask";
  mcp: boolean;
  current_model?: string;
}

export interface StreamStart {
  type: "stream_start";
  msg_id: string;
}

export interface TextDelta {
  type: "text_delta";
  text: string;
  msg_id: string;
}

export interface Thinking {
  type: "thinking";
  text: string;
  msg_id: string;
}

export interface ToolRequest {
  type: "tool_request";
  msg_id: string;
  call_id: string;
  tool: Tool;
}

export interface Tool {
  name: string;
  category: "info" | "edit" | "exec" | "mcp";
  args: Record<string, unknown>;
  description: string;
}

export interface ToolRunning {
  type: "tool_running";
  msg_id: string;
  call_id: string;
  tool_name: string;
}

export interface ToolResult {
  type: "tool_result";
  msg_id: string;
  call_id: string;
  tool_name: string;
  status: "success" | "error";
  output: string;
  output_type: "text" | "diff" | "image";
  metadata?: unknown;
}

export interface ToolCancelled {
  type: "tool_cancelled";
  msg_id: string;
  call_id: string;
  reason: string;
}

export interface Info {
  type: "info";
  msg_id: string;
  message: string;
}

export interface McpReady {
  type: "mcp_ready";
  name: string;
  tools: string[];
}

export interface Pong {
  type: "pong";
}

export interface OldStreamEnd {
  type: "stream_end";
  msg_id: string;
  usage?: Usage | null;
}

/** Tokens of this turn. The three kinds of input do not overlap. */
export interface Usage {
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens?: number;
  cache_write_tokens?: number;
}

export interface OldError {
  type: "error";
  msg_id: string | null;
  error: Fault;
}

export interface Fault {
  code: string;
  message: string;
  retryable?: boolean;
}

export interface OldConfigChanged {
  type: "config_changed";
  capabilities: OldCapabilities;
}

/** The text as `input`; our host side writes it as `content` too, as aionrs calls it since 0.1.11. */
export interface OldMessage {
  type: "message";
  msg_id: string;
  input: string;
  content?: string;
  files?: string[];
}

export interface Stop {
  type: "stop";
}

export interface ToolApprove {
  type: "tool_approve";
  call_id: string;
  /** Default: `"once"`. */
  scope?: "once" | "always" | Standing;
  answer?: string | null;
}

/** An approval that is wider than one call and narrower than its category. One of the two fields is set. */
export interface Standing {
  always_prefix?: Prefix | null;
  always_path?: Path | null;
}

export interface Prefix {
  prefix: string;
}

export interface Path {
  root: string;
  write?: boolean;
}

export interface ToolDeny {
  type: "tool_deny";
  call_id: string;
  reason?: string;
}

export interface InitHistory {
  type: "init_history";
  text: string;
}

export interface SetMode {
  type: "set_mode";
  mode: "default" | "auto_edit" | "force" | "yolo" | "plan" | "dont_ask";
}

export interface AddMcpServer {
  type: "add_mcp_server";
  name: string;
  transport: "stdio" | "sse" | "streamable-http" | "streamable_http";
  command?: string | null;
  args?: string[] | null;
  env?: Record<string, string> | null;
  url?: string | null;
  headers?: Record<string, string> | null;
  cwd?: string | null;
}

export interface Ping {
  type: "ping";
}

/** `image_input` (aionrs since 0.2.5) says whether the model can see pictures. */
export interface OldSetConfig {
  type: "set_config";
  model?: string | null;
  thinking?: "enabled" | "disabled" | null;
  thinking_budget?: number | null;
  effort?: string | null;
  compaction?: "off" | "safe" | "full" | null;
  image_input?: "supported" | "unsupported" | "unknown" | null;
}
