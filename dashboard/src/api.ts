// Calls of the admin API, of the origin that the page is from.

import { signal } from "@preact/signals"
import type { Finding } from "./types"

/** An answer that is not what was asked for (RFC 9457), or none at all: then status is 0. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    detail: string,
    readonly code = "",
    readonly findings: Finding[] = [],
    readonly etag = "",
  ) {
    super(detail)
  }
}

const stored = "weir-token"

/** The token of this tab; empty: calls have none, as on a machine that needs none. */
export const token = signal(sessionStorage.getItem(stored) ?? "")

/** Why the page asks for a token; null: it does not. What people have typed stays as it is meanwhile. */
export const login = signal<Problem | null>(null)

export function logIn(text: string): void {
  token.value = text.replace(/[^!-~]/g, "") // what is copied has more than one sees, which no header may have
  login.value = null
  if (token.value) {
    sessionStorage.setItem(stored, token.value)
  } else {
    sessionStorage.removeItem(stored)
  }
}

export interface Call {
  method?: string
  body?: unknown
  /** ETag of the version that is to be changed. */
  match?: string
  signal?: AbortSignal
}

/** Makes a call; an answer that is no success is a Problem. */
export async function request(path: string, call: Call = {}): Promise<Response> {
  const headers: Record<string, string> = {}
  const own = token.value
  if (own) headers.Authorization = "Bearer " + own
  if (call.body !== undefined) headers["Content-Type"] = "application/json"
  if (call.match) headers["If-Match"] = call.match
  let answer: Response
  try {
    answer = await fetch("v1/" + path, {
      method: call.method ?? (call.body === undefined ? "GET" : "POST"),
      headers,
      body: call.body === undefined ? null : JSON.stringify(call.body),
      signal: call.signal ?? null,
    })
  } catch (err) {
    if (call.signal?.aborted) throw err
    throw new Problem(0, "the program does not answer; is it running, and can this machine reach it?")
  }
  if (answer.ok) return answer
  const p = await problemOf(answer)
  if (p.status === 401) {
    if (own !== token.value) return request(path, call) // somebody has logged in meanwhile
    login.value = p
  }
  throw p
}

async function problemOf(answer: Response): Promise<Problem> {
  const etag = answer.headers.get("ETag") ?? ""
  try {
    const p = await answer.json()
    return new Problem(answer.status, String(p.detail ?? answer.statusText), p.code, p.findings, etag)
  } catch {
    return new Problem(answer.status, answer.statusText || "status " + answer.status, "", [], etag)
  }
}

/** The answer of a call, as JSON. */
export async function get<T>(path: string, call?: Call): Promise<T> {
  const answer = await request(path, call)
  return answer.status === 204 ? (undefined as T) : ((await answer.json()) as T)
}

/** The same with the ETag of what was answered. */
export async function getTagged<T>(path: string): Promise<{ value: T; etag: string }> {
  const answer = await request(path)
  return { value: (await answer.json()) as T, etag: answer.headers.get("ETag") ?? "" }
}

/** A path with a query, of which empty values are left out. */
export function query(path: string, of: Record<string, string | number | boolean | string[] | undefined>): string {
  const q = new URLSearchParams()
  for (const [name, value] of Object.entries(of)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== "") q.append(name, String(one))
    }
  }
  return q.size ? path + "?" + q : path
}
