// jsonstream 0.2.0. Made of jsonstream-0.2.0.json by generate.py: do not edit.
// A field that is left out and whose default is not named is empty: "", 0, false, [], {} or null.
// Newer engines add types, fields and words: ignore those that are not here.

/** Any line that an engine writes. */
export type Event =
  | Ready
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
  | StreamEnd
  | Error
  | ConfigChanged
  | McpFailed
  | ProviderCircuitEvent
  | BudgetExceeded
  | ToolPanicked
  | PluginRegistrationFailed
  | ToolChunk
  | SubAgentEvent
  | SessionCost
  | ApprovalRequired
  | Suspend
  | ApprovalResumed
  | CompactOffload
  | TraceEvent
  | BrowserEvent
  | BrowserPolicyDenied
  | CuaEvent
  | CuaPolicyDenied
  | PluginEvent
  | EvolutionEvent;

/** Any line that a host writes. */
export type Command =
  | Message
  | Stop
  | ToolApprove
  | ToolDeny
  | InitHistory
  | SetMode
  | AddMcpServer
  | Ping
  | SetConfig
  | ApprovalResume;

export interface Ready {
  type: "ready";
  version: string;
  session_id?: string | null;
  capabilities: Capabilities;
}

/** The first seven are always written; the others only while they are true. */
export interface Capabilities {
  tool_approval: boolean;
  thinking: boolean;
  effort: boolean;
  effort_levels: string[];
  modes: ("default" | "auto_edit" | "force" | "yolo" | "plan" | "dont_ask")[];
  current_mode: "default" | "auto_edit" | "force" | "yolo" | "plan" | "dont_ask";
  mcp: boolean;
  streaming_tools?: boolean;
  sub_agent_traces?: boolean;
  cost_attribution?: boolean;
  hitl_suspend?: boolean;
  non_destructive_compact?: boolean;
  structured_traces?: boolean;
  rpc_tool_script?: boolean;
  browser_suite?: boolean;
  computer_use?: boolean;
  plugins?: boolean;
  gepa_enabled?: boolean;
  user_model_backend?: string;
  online_evolution?: boolean;
  memory_enabled?: boolean;
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

export interface StreamEnd {
  type: "stream_end";
  msg_id: string;
  finish_reason: "stop" | "length" | "error" | "max_turns";
  usage?: Usage | null;
}

/** Tokens of this turn. The three kinds of input do not overlap. */
export interface Usage {
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens?: number;
  cache_write_tokens?: number;
}

export interface Error {
  type: "error";
  msg_id?: string | null;
  error: Fault;
}

export interface Fault {
  code: string;
  message: string;
  retryable?: boolean;
}

export interface ConfigChanged {
  type: "config_changed";
  capabilities: Capabilities;
}

export interface McpFailed {
  type: "mcp_failed";
  name: string;
  reason: string;
}

export interface ProviderCircuitEvent {
  type: "provider_circuit_event";
  primary: string;
  fallback?: string | null;
  state: "closed" | "open" | "half_open";
  error?: string | null;
}

export interface BudgetExceeded {
  type: "budget_exceeded";
  reason: string;
  observed: string;
  limit: string;
}

export interface ToolPanicked {
  type: "tool_panicked";
  msg_id: string;
  call_id: string;
  tool_name: string;
  panic_message: string;
}

export interface PluginRegistrationFailed {
  type: "plugin_registration_failed";
  plugin_name: string;
  surface: string;
  error_kind: string;
  message: string;
}

/** One line of output, without its line break. `tool_result` still has the whole output. */
export interface ToolChunk {
  type: "tool_chunk";
  msg_id: string;
  call_id: string;
  tool_name: string;
  chunk: string;
}

/**
 * `inner` is an event frame of the sub-agent. If the sub-agent was stopped, the last frame also has `terminal_state`,
 * because its `stream_end` does not say so.
 */
export interface SubAgentEvent {
  type: "sub_agent_event";
  parent_call_id: string;
  agent_name: string;
  inner: Record<string, unknown>;
  terminal_state?: string;
}

/** The cost of the whole session so far. `per_turn` may be empty but is always written. */
export interface SessionCost {
  type: "session_cost";
  session_id: string;
  total_cost_usd: number;
  per_turn: CostRow[];
}

/**
 * One request to a model. `priced` is written (as false) only if the price is not known, so that zero is not read as
 * free.
 */
export interface CostRow {
  turn: number;
  model: string;
  provider: string;
  cost_usd: number;
  priced?: boolean;
}

export interface ApprovalRequired {
  type: "approval_required";
  call_id: string;
  resume_token: string;
  correlation_id?: string;
  reason: string;
  context: string;
}

export interface Suspend {
  type: "suspend";
  reason: string;
  resume_token: string;
}

/** Repeats the answer that the host gave with `approval_resume`. Also written if a timeout or a stop decided. */
export interface ApprovalResumed {
  type: "approval_resume";
  resume_token: string;
  approved: boolean;
}

export interface CompactOffload {
  type: "compact_offload";
  msg_id: string;
  reason: string;
  tokens_freed: number;
  active_window_percent?: number | null;
}

export interface TraceEvent {
  type: "trace_event";
  msg_id: string;
  trace: Record<string, unknown>;
}

export interface BrowserEvent {
  type: "browser_event";
  msg_id: string;
  call_id: string;
  op: string;
  url?: string | null;
  summary: string;
}

export interface BrowserPolicyDenied {
  type: "browser_policy_denied";
  msg_id: string;
  url: string;
  reason: string;
}

export interface CuaEvent {
  type: "cua_event";
  msg_id: string;
  call_id: string;
  op: string;
  coords?: [number, number] | null;
  summary: string;
}

export interface CuaPolicyDenied {
  type: "cua_policy_denied";
  msg_id: string;
  op: string;
  app?: string;
  reason: string;
}

export interface PluginEvent {
  type: "plugin_event";
  plugin_name: string;
  event_type: string;
  payload: unknown;
}

export interface EvolutionEvent {
  type: "evolution_event";
  run_id: string;
  generation: number;
  parent_id: string;
  child_id: string;
  mutation_kind: string;
  score: number;
  retained: boolean;
}

export interface Message {
  type: "message";
  msg_id: string;
  content: string;
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

export interface SetConfig {
  type: "set_config";
  model?: string | null;
  thinking?: "enabled" | "disabled" | null;
  thinking_budget?: number | null;
  effort?: string | null;
  compaction?: "off" | "safe" | "full" | null;
}

export interface ApprovalResume {
  type: "approval_resume";
  resume_token: string;
  approved: boolean;
  modifications?: unknown;
}
