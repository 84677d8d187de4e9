// What rules decided in the past: the history that the server keeps or, without one, what the page has seen since it was opened.

import { computed, effect, signal } from "@preact/signals"
import { useEffect } from "preact/hooks"
import { get, Problem, query } from "./api"
import { useAnswer } from "./forms"
import type { Counts, History, HistoryKeys, RuleHistory, Status } from "./types"
import { status } from "./live"

export type Span = "15m" | "1h" | "24h"

export const spans: Record<Span, string> = { "15m": "15 minutes", "1h": "hour", "24h": "24 hours" }

/** How far back pages look. */
export const span = signal<Span>("1h")

/** The history; null: it is not known yet. */
export const past = signal<History | null>(null)

/** The server keeps no history, as an aggregator: past is what the page has seen. */
export const forgetful = signal(false)

/** Why the history could not be read the last time; empty: it could. */
export const unread = signal("")

/** Since when past is, in words: "in the last hour". */
export function reach(): string {
  return forgetful.value ? "since this page was opened" : "in the last " + spans[span.value]
}

/** Keeps past up to date while a page is open. */
export function usePast(): void {
  useEffect(() => {
    let timer = 0
    let turn = 0 // answers of earlier ones come too late
    const load = async () => {
      const own = ++turn
      clearTimeout(timer)
      try {
        const value = await get<History>(query("history", { span: span.value }))
        if (own !== turn) return
        past.value = value
        unread.value = ""
      } catch (err) {
        if (err instanceof Problem && err.status === 404) forgetful.value = true
        else unread.value = err instanceof Error ? err.message : String(err)
      }
      if (own === turn && !forgetful.value) timer = setTimeout(() => void load(), Math.min(past.value?.step_ms ?? 2000, 60_000))
    }
    const end = effect(() => {
      if (span.value && of.value && !forgetful.value) void load()
    })
    return () => {
      turn++
      clearTimeout(timer)
      end()
    }
  }, [])
}

/** Whom pages show; empty: nobody has told yet. An aggregator keeps no history, and is not asked for one. */
const of = computed(() => status.value?.of ?? "")
of.subscribe((of) => {
  if (of === "all regions") forgetful.value = true
})

/** The keys of the history's last hour or day, and what rules on trial would have done. */
export function useKeys(by: "key" | "denied", limit: number, rule?: string) {
  const hours = span.value === "24h" ? "24h" : "1h"
  const answer = useAnswer<HistoryKeys>(!past.value || forgetful.value ? null : query("history/keys", { span: hours, by, limit, rule }))
  useEffect(() => {
    const timer = setInterval(answer.reload, 60_000)
    return () => clearInterval(timer)
  }, [hours, by, rule])
  return answer.value
}

const none: number[] = []

/** The counts of one rule, or of all that a test holds for, in each step. */
export function countsOf(h: History, holds: (rule: string) => boolean): Counts<number[]> {
  const some = h.rules.filter((r) => holds(r.rule))
  const of = (kind: keyof Counts<0>) => h.known.map((_, i) => some.reduce((n, r) => n + (r[kind][i] ?? 0), 0))
  return { admitted: of("admitted"), denied: of("denied"), shadow_denied: of("shadow_denied"), fallback: of("fallback"), shed: of("shed") }
}

/** The sums of counts. */
export function sumsOf(of: Counts<number[]> | undefined): Counts<number> {
  const sum = (list = none) => list.reduce((n, one) => n + one, 0)
  return { admitted: sum(of?.admitted), denied: sum(of?.denied), shadow_denied: sum(of?.shadow_denied), fallback: sum(of?.fallback), shed: sum(of?.shed) }
}

const trialNames = computed(() => (status.value?.rules ?? []).flatMap((u) => (u.mode === "shadow" ? [u.rule] : [])).join("\n"))
const trials = computed(() => new Set(trialNames.value.split("\n")))

/** Whether a rule rejects nothing but is counted: one on trial, or a candidate. */
export function onTrial(rule: string): boolean {
  return trials.value.has(rule)
}

/** The sums of all enforced rules, and those of all trials; null: nothing is known yet. */
export const sumOfEnforced = computed(() => past.value && sumsOf(countsOf(past.value, (rule) => !onTrial(rule))))
export const sumOfTrials = computed(() => past.value && sumsOf(countsOf(past.value, onTrial)))

/** The sums of each rule with any count. */
export const sumsByRule = computed(() => new Map(past.value?.rules.map((r) => [r.rule, sumsOf(r)])))

const step = 1000 // ms
const kept = 600 // steps
let before: Status | null = null

// Without a history each status is a step: rates become counts, and what trials would have rejected is how much its sum grew.
status.subscribe((now) => {
  if (!now || !forgetful.value) return
  const seen = past.value?.step_ms === step ? past.value : { of: now.of, from: new Date().toISOString(), step_ms: step, known: [], rules: [] }
  const begin = Date.parse(seen.from)
  const at = Math.max(seen.known.length, Math.round((Date.now() - begin) / step))
  const drop = Math.max(0, at + 1 - kept)
  const extend = <T>(list: T[], missing: T, last: T) => [...list, ...Array<T>(at - list.length).fill(missing), last].slice(drop)
  const known = extend(seen.known, false, true)
  const old = new Map(seen.rules.map((r) => [r.rule, r]))
  const sums = new Map(before?.rules.map((u) => [u.rule, u.shadow_denied]))
  const same = before?.members.length === now.members.length // those of a PoP that was not heard before grew earlier
  const rules = now.rules.flatMap((u): RuleHistory[] => {
    const grown = same ? Math.max(0, u.shadow_denied - (sums.get(u.rule) ?? u.shadow_denied)) : 0
    const r = old.get(u.rule)
    if (!r && u.admitted_per_second + u.denied_per_second + grown === 0) return []
    const add = (list: number[] | undefined, last: number) => extend(list ?? none, 0, last)
    return [{ rule: u.rule, admitted: add(r?.admitted, u.admitted_per_second), denied: add(r?.denied, u.denied_per_second), shadow_denied: add(r?.shadow_denied, grown), fallback: none, shed: none }]
  })
  before = now
  past.value = { ...seen, from: new Date(begin + drop * step).toISOString(), known, rules }
})
