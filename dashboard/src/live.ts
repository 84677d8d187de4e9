// What the running system does: one stream of events for all pages.

import { batch, computed, signal } from "@preact/signals"
import { login, Problem, query, request } from "./api"
import type { Decision, InForce, Status, Top } from "./types"

export const status = signal<Status | null>(null)
export const top = signal<Top | null>(null)
export const inForce = signal<InForce | null>(null)

/** The last decisions, the newest first. */
export const decisions = signal<Decision[]>([])

/** Why nothing new is shown; null: all is well. */
export const trouble = signal<string | null>(null)

/** Calls can succeed: nothing is wrong, and nobody is asked to log in. */
export const able = computed(() => trouble.value === null && login.value === null)

const shown = 200 // decisions
const silence = 10_000 // ms without an event, of which there is one a second: the connection is gone, though nobody has ended it

/** What a page wants to see beside the status. */
export interface Wish {
  top?: "key" | "denied" | "rule"
  limit?: number
  tap?: boolean
  rule?: string
}

let wish: Wish = {}
let current: AbortController | null = null
let failures = 0

/** Has the stream send what a page wishes, from now on. */
export function watch(next: Wish): void {
  if (current && JSON.stringify(next) === JSON.stringify(wish)) return
  wish = next
  batch(() => {
    top.value = null
    decisions.value = []
  })
  failures = 0
  void run()
}

/** Begins anew at once: after a login, or when the page is seen again. */
export function reconnect(): void {
  failures = 0
  void run()
}

async function run(): Promise<void> {
  current?.abort()
  const own = (current = new AbortController())
  let late = 0
  const heard = () => {
    clearTimeout(late)
    late = setTimeout(() => {
      trouble.value = "nothing has come for 10 s; what you see is old"
      reconnect()
    }, silence)
  }
  while (current === own) {
    try {
      heard()
      const answer = await request(query("stream", { ...wish }), { signal: own.signal })
      failures = 0
      await read(answer.body!, own, heard)
      if (current !== own) return
      trouble.value = "the stream has ended; it is opened again"
    } catch (err) {
      if (own.signal.aborted) return
      trouble.value = err instanceof Problem ? err.message : "the stream broke; it is opened again"
      if (err instanceof Problem && (err.status === 401 || err.status === 403)) return // until somebody logs in
    } finally {
      clearTimeout(late)
    }
    failures++
    await new Promise((go) => setTimeout(go, Math.min(500 * 2 ** failures, 10_000)))
  }
}

async function read(body: ReadableStream<Uint8Array>, own: AbortController, heard: () => void): Promise<void> {
  const reader = body.pipeThrough(new TextDecoderStream() as unknown as ReadableWritablePair<string, Uint8Array>).getReader()
  let text = ""
  for (;;) {
    const { done, value } = await reader.read()
    if (done || current !== own) return
    heard()
    text += value
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      take(text.slice(0, end))
      text = text.slice(end + 2)
    }
  }
}

function take(event: string): void {
  let name = ""
  let data = ""
  for (const line of event.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7)
    if (line.startsWith("data: ")) data += line.slice(6)
  }
  if (!data) return
  const value = JSON.parse(data)
  batch(() => {
    if (name !== "problem") trouble.value = null
    switch (name) {
      case "status":
        status.value = value
        break
      case "top":
        top.value = value
        break
      case "rules":
        inForce.value = value
        break
      case "decisions":
        decisions.value = [...value.items.reverse(), ...decisions.value].slice(0, shown)
        break
      case "problem":
        trouble.value = value.detail
    }
  })
}

/** Rules by their names, as they are counted. */
export const uses = computed(() => new Map((status.value?.rules ?? []).map((u) => [u.rule, u])))

login.subscribe((asked) => {
  if (!asked && current) reconnect()
})
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && trouble.value) reconnect()
})
