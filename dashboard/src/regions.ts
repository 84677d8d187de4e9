// Regions with their members, and which of them are cut off.

import { computed } from "@preact/signals"
import { duration, time } from "./format"
import { status } from "./live"
import type { Member, Status } from "./types"

const heard = new Map<string, number>() // when each region was heard last, in ms since 1970

/** The regions that are missing: those that the server misses, and those that the page has seen before. */
const missing = computed((): string[] => {
  const s = status.value
  for (const m of s?.members ?? []) {
    if (m.kind === "region" && m.region) heard.set(m.region, Math.max(heard.get(m.region) ?? 0, Date.now() - m.last_report_ms))
  }
  const gone = [...heard.keys()].filter((region) => !s?.members.some((m) => m.region === region))
  return [...new Set([...(s?.missing_regions ?? []), ...gone])].sort()
})

/** Since when a region is missing, in words. */
function since(region: string): string {
  const at = heard.get(region)
  return at ? "since " + time(new Date(at)) : "for more than a minute"
}

/** The problems of members that a line about their region tells already. */
export const ofCutOff = /^(not heard|the aggregator has not answered) for [^;]*$/

/** A region, or the replicas of the aggregator. */
export interface Region {
  name: string
  aggregator: boolean
  replicas: Member[]
  pops: Member[]
  /** Since when the region and the aggregator do not reach each other, in words; null: they do. */
  cutOff: string | null
}

/** The aggregator first, then all regions by name, those without a report too. */
export function regionsOf(s: Status): Region[] {
  const all = new Map<string, Region>()
  const of = (name: string, aggregator = false) => {
    const known = all.get(name) ?? { name, aggregator, replicas: [], pops: [], cutOff: null }
    all.set(name, known)
    return known
  }
  for (const m of s.members) {
    const region = m.kind === "aggregator" ? of("aggregator", true) : of(m.region || "no name")
    if (m.kind === "pop") region.pops.push(m)
    else region.replicas.push(m)
  }
  for (const r of all.values()) {
    const ms = Math.max(0, ...r.replicas.map((m) => m.degraded_ms))
    if (ms > 0) r.cutOff = "from the aggregator for " + duration(ms)
  }
  for (const name of missing.value) of(name).cutOff = since(name)
  return [...all.values()].sort((a, b) => Number(b.aggregator) - Number(a.aggregator) || (a.name < b.name ? -1 : 1))
}
