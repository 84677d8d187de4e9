// Regions with their members, and which of them are cut off.

import { missing, since } from "./banner"
import { duration } from "./format"
import type { Member, Status } from "./types"

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
