// The health of what the page shows, in one banner. What is not known is grey, never green.

import { computed } from "@preact/signals"
import { percent } from "./format"
import { inForce, status, trouble } from "./live"
import { ofCutOff, regionsOf } from "./regions"
import type { Member, Status } from "./types"
import { Link, Text } from "./widgets"

type Level = "unknown" | "well" | "warn" | "bad"

interface Finding {
  level: Level
  what: string
  why: string
}

/** How long PoPs may take to report once somebody watches. */
const firstReports = 5000 // ms

const findings = computed((): Finding[] => {
  const s = status.value
  if (trouble.value) return [{ level: "unknown", what: "Nothing new is known", why: trouble.value }]
  if (!s) return [{ level: "unknown", what: "Waiting for the first report", why: "" }]
  const cut = regionsOf(s).filter((r) => r.cutOff)
  const all: Finding[] = cut.map((r) => ({ level: "bad", what: "Region " + r.name, why: "cut off " + r.cutOff }))
  if (s.in_force.problem) all.push({ level: "bad", what: "Newer rules are not in force", why: s.in_force.problem })
  for (const m of s.members) {
    const told = cut.some((r) => r.name === m.region) && ofCutOff.test(m.problem ?? "")
    if (m.problem && !told) all.push({ level: gone(m) ? "bad" : "warn", what: kinds[m.kind] + " " + m.name, why: m.problem })
  }
  for (const u of s.rules) {
    if (u.hint === "key-missing") all.push({ level: "warn", what: "Rule " + u.rule, why: "no request had its key" })
  }
  const rejected = mostRejected(s)
  if (rejected) all.push({ level: "warn", what: "Most requests are rejected", why: rejected })
  if (!s.members.some((m) => m.kind === "pop")) {
    all.push(
      s.watched_ms < firstReports
        ? { level: "unknown", what: "Waiting for PoPs to report", why: "" }
        : { level: "unknown", what: "No PoP reports", why: "nothing is known about requests; PoPs without traffic report late" },
    )
  }
  return all
})

const kinds = { pop: "PoP", region: "Region replica", aggregator: "Aggregator" }

function gone(m: Member): boolean {
  return m.last_report_ms > 3000 || m.degraded_ms > 0 || !m.rules_version || (m.redis ?? "ok") !== "ok"
}

/** How many requests are rejected now, if it is more than half. */
function mostRejected(s: Status): string {
  const denied = s.rules.reduce((n, u) => n + u.denied_per_second, 0)
  const all = denied + s.rules.reduce((n, u) => n + u.admitted_per_second, 0)
  const by = s.rules.reduce((a, b) => (b.denied_per_second > a.denied_per_second ? b : a), s.rules[0]!)
  return all > 0 && denied > all / 2 ? `${percent(denied / all)} in the last seconds, most of them by ${by.rule}` : ""
}

/** The worst level of all findings; without any all is well. */
export const level = computed((): Level => {
  const has = (l: Level) => findings.value.some((f) => f.level === l)
  return has("bad") ? "bad" : has("warn") ? "warn" : has("unknown") ? "unknown" : "well"
})

/** Pages other than the overview show the banner only when something is wrong. */
export function Banner({ brief }: { brief: boolean }) {
  const all = findings.value
  if (brief && (level.value === "well" || (!trouble.value && level.value === "unknown"))) return null
  const one = all.length === 1 ? all[0] : undefined
  const members = status.value?.members ?? []
  const count = (kind: Member["kind"], name: string) => {
    const n = members.filter((m) => m.kind === kind).length
    return n ? `${n} ${name}${n > 1 ? "s" : ""}` : ""
  }
  return (
    <section class={"banner " + level.value} aria-label="Health">
      {all.length === 0 ? (
        <p role="status">
          <strong>Healthy.</strong> {[count("pop", "PoP"), count("region", "region replica"), count("aggregator", "aggregator")].filter(Boolean).join(", ")} with
          the same rules{inForce.value?.revision ? "" : " from files"}.
        </p>
      ) : one ? (
        <p role="status">
          <Told of={one} />
        </p>
      ) : (
        <>
          <p role="status">
            <strong>{level.value === "unknown" ? "Not known" : "Needs attention"}</strong>
          </p>
          <ul>
            {all.slice(0, 20).map((f) => (
              <li key={f.what + f.why.replace(/\d+/g, "")} class={f.level}>
                <Told of={f} />
              </li>
            ))}
          </ul>
          {all.length > 20 && <p>{all.length - 20} more.</p>}
          <Link to="fleet">All members</Link>
        </>
      )}
    </section>
  )
}

function Told({ of }: { of: Finding }) {
  return (
    <>
      <strong>
        <Text of={of.what} />
      </strong>
      {of.why ? ": " : "…"}
      <Text of={of.why} most={500} />
    </>
  )
}

