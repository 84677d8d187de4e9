// The messages of the admin API that the page uses, as docs/openapi.yaml describes them.

export interface InForce {
  version: string
  revision: number
  problem?: string
}

export interface Member {
  kind: "pop" | "region" | "aggregator"
  region?: string
  name: string
  holder: string
  workers: number
  version: string
  rules_version: string
  rules_revision: number
  rules_age_ms: number
  age_ms: number
  last_report_ms: number
  degraded_ms: number
  reserve_per_mille: number
  keys: number
  places: number
  redis?: string
  error?: string
  error_age_ms?: number
  problem?: string
}

export interface Use {
  rule: string
  mode?: "enforce" | "shadow" | "off" | "exempt"
  limit?: string
  matched: number
  no_key: number
  admitted: number
  denied: number
  shadow_denied: number
  admitted_per_second: number
  denied_per_second: number
  used?: number
  hint?: string
}

/** What rules decided: requests in each step. */
export interface History {
  of: string
  from: string
  step_ms: number
  known: boolean[]
  rules: RuleHistory[]
}

/** The counts of a rule in each step. */
export interface Counts<T> {
  admitted: T
  denied: T
  shadow_denied: T
  fallback: T
  shed: T
}

export interface RuleHistory extends Counts<number[]> {
  rule: string
}

export interface KeyHistory {
  rule: string
  override?: string
  key: string
  requests: number
}

export interface Trial {
  rule: string
  requests: number
  shadow_denied: number
  keys: number
  error_percent: number
}

export interface HistoryKeys {
  from: string
  keys: KeyHistory[]
  trials: Trial[]
}

export interface Seen {
  of: string
  watched_ms: number
}

export interface Status extends Seen {
  in_force: InForce
  missing_regions: string[]
  regions?: { region: string; admitted_per_second: number; denied_per_second: number }[]
  members: Member[]
  rules: Use[]
}

export interface Rate {
  rule: string
  override?: string
  key: string
  from?: string
  per_second: number
  over: number
}

export interface Top extends Seen {
  keys: Rate[]
  rules: Use[]
}

export interface Decision {
  when: string
  rule: string
  override?: string
  key: string
  from: string
  outcome: "admitted" | "rejected" | "fallback" | "would-be-rejected"
  remaining: number
  retry_after_ms?: number
}

export interface Finding {
  line: number
  column: number
  path: string
  code: string
  page: string
  reason: string
  warning?: boolean
}

export interface Version {
  revision: number
  when: string
  who: string
  why: string
  rollback_to?: number
  amends?: string
}

export interface Rules {
  source: "consul" | "store" | "file" | "none"
  version?: Version
  document: string
  in_force: InForce
}

/** A rule in force, in words. */
export interface RuleInForce {
  rule: string
  mode: string
  shed?: boolean
  words: string[]
  per_second?: number
  example?: Example
}

/** A request that a rule matches. */
export interface Example {
  method?: string
  host?: string
  path: string
  headers?: Record<string, string>
  client?: string
}

export interface Validated {
  ok: boolean
  rules: number
  findings: Finding[]
}

export interface Applied {
  version: Version
  before: number
  warnings: Finding[]
}

export interface Amendment {
  rule: string
  key?: string[]
  hash?: string
  limit?: unknown
  until: string
  why: string
}

export interface Entry extends Amendment {
  kind: "override" | "candidate"
  when: string
  who: string
  problem?: string
}

export interface Counter {
  rule: string
  variant?: number
  override?: string
  counted?: string
  own_limit?: boolean
  until?: string
  unlimited?: boolean
  slots?: boolean
  limit: number
  remaining: number
  out: number
  reset_ms: number
  retry_after_ms?: number
  blocked?: boolean
}

export interface Explained {
  rule: string
  mode: string
  applies: boolean
  failed?: string
  exempt_by?: string
  override?: string
  unlimited?: boolean
  class?: string
  counted?: string
  cost?: number
  limit?: number
  counters?: Counter[]
  problem?: string
}

export interface Explanation {
  rules: Explained[]
  rejected_by?: string
}

/** The client that makes the calls. */
export interface Whoami {
  name: string
  role: string
  prefix?: string
  until?: string
}

export interface AuditEntry {
  id: string
  when: string
  who: string
  role: string
  what: string
  on?: string
  before?: string
  after?: string
  why?: string
}

export interface Page<T> {
  items: T[]
  next?: string | number
}

/** What a version of the rules does otherwise than another one. */
export interface Diff {
  rules: { name: string; change: string; changes: DiffChange[]; applies_to?: Record<string, unknown>; applied_to?: Record<string, unknown> }[]
  changed: number
  added: number
  removed: number
}

export interface DiffChange {
  what: string
  old?: string
  new?: string
  counters?: string
  effect?: string
}

/** A test of a document that ran. */
export interface Tested {
  name: string
  line: number
  failure?: { line: number; step: number; expected: string[]; got: string[]; note?: string }
  problem?: string
}
