// The first page: how many requests are rejected, by which rule and of whom, each region, and all rules.

import { useEffect } from "preact/hooks"
import { Rates, Share, Spans } from "./chart"
import { certain, number, percent } from "./format"
import { inForce, status, top, watch } from "./live"
import { forgetful, onTrial, past, reach, sumOfEnforced, sumOfTrials, sumsByRule, useKeys, usePast } from "./past"
import { type Region, regionsOf } from "./regions"
import type { Counts, HistoryKeys, Member, Status, Use } from "./types"
import { Card, Link, Meter, Num, ruleLink, Table, Text } from "./widgets"

export function Overview() {
  useEffect(() => watch({ top: "key", limit: 20 }), [])
  usePast()
  const s = status.value
  return (
    <>
      <h1>Overview</h1>
      {s && <Shown of={s} />}
    </>
  )
}

function Shown({ of: s }: { of: Status }) {
  const busiest = useKeys("key", 20)
  const rejected = useKeys("denied", 20)
  return (
    <>
      <Card title="Requests" actions={<Spans />}>
        <Answer of={s} rejected={rejected} />
        <Figures of={s} trials={busiest} />
        <Rates of={(rule) => !onTrial(rule)} label={"Requests a second, admitted and rejected by all enforced rules, " + reach()} />
      </Card>
      <Card title="Rules">
        <Rules of={s.rules} />
      </Card>
      <div class="two">
        <Card title="Top keys">
          <Keys busiest={busiest} rejected={rejected} />
        </Card>
        <Card title="Regions">
          <Regions of={s} />
        </Card>
      </div>
    </>
  )
}

/** The part of requests that is rejected, by which rule mostly, and of which key. */
function Answer({ of: s, rejected }: { of: Status; rejected: HistoryKeys | null }) {
  const all = sumOfEnforced.value
  if (!all) return <p class="answer">…</p>
  const total = all.admitted + all.denied
  const by = [...sumsByRule.value]
    .filter(([rule]) => !onTrial(rule))
    .map(([rule, sums]) => ({ rule, denied: sums.denied }))
    .sort((a, b) => b.denied - a.denied)[0]
  const whom = rejected?.keys.find((k) => !onTrial(k.rule))
  if (total === 0) {
    const trials = s.rules.length > 0 && s.rules.every((u) => u.mode !== "enforce")
    return <p class="answer">{trials ? "No rule is enforced: nothing is rejected." : `No request matched an enforced rule ${reach()}.`}</p>
  }
  if (!by || all.denied === 0) return <p class="answer">No request was rejected {reach()}.</p>
  return (
    <p class="answer">
      <strong>{percent(all.denied / total)}</strong> of requests rejected {reach()}, {by.denied > all.denied / 2 ? "mostly" : "most"} by {ruleLink(by.rule)}
      {whom && whom.requests > all.denied / 2 && (
        <>
          , mostly <Text of={whom.key} />
        </>
      )}
      .
    </p>
  )
}

function Figures({ of: s, trials }: { of: Status; trials: HistoryKeys | null }) {
  const enforced = sumOfEnforced.value
  const tried = sumOfTrials.value
  const now = s.rules.reduce((n, u) => n + u.admitted_per_second + u.denied_per_second, 0)
  const total = (enforced?.admitted ?? 0) + (enforced?.denied ?? 0)
  const matched = trials?.trials.reduce((n, t) => n + t.requests, 0) ?? 0
  const figures: [string, string][] = [
    ["requests now", number(now) + "/s"],
    ["rejected", !enforced ? "–" : total ? percent(enforced.denied / total) : "–"],
    ["would be rejected", !tried ? "–" : matched && trials ? percent(trials.trials.reduce((n, t) => n + t.shadow_denied, 0) / matched) : number(tried.shadow_denied)],
    ["fallbacks", enforced && !forgetful.value ? number(enforced.fallback) : "–"],
    ["shed", enforced && !forgetful.value ? number(enforced.shed) : "–"],
    ["PoPs", String(s.members.filter((m) => m.kind === "pop").length)],
  ]
  return (
    <dl class="totals">
      {figures.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd class="num">{value}</dd>
        </div>
      ))}
    </dl>
  )
}

const modes = { enforce: "enforced", shadow: "on trial", off: "off", exempt: "exempt" }

function Rules({ of }: { of: Use[] }) {
  const h = past.value
  const counts = new Map<string, Counts<number[]>>(h?.rules.map((r) => [r.rule, r]))
  const weight = (u: Use) => {
    const sums = sumsByRule.value.get(u.rule)
    if (!sums) return 0
    return u.mode === "shadow" ? sums.shadow_denied / 1e6 : sums.denied
  }
  const rows = of.map((u) => ({ ...u, weight: weight(u) })).sort((a, b) => b.weight - a.weight)
  return (
    <Table
      caption="Rules"
      rows={rows}
      id={(u) => u.rule}
      empty={
        <>
          There are no rules. <Link to="edit">Write the first one</Link>
        </>
      }
      columns={[
        { name: "rule", of: (u) => ruleLink(u.rule) },
        { name: "rejected", of: (u) => (counts.has(u.rule) ? <Share of={counts.get(u.rule)!} trial={u.mode === "shadow"} /> : <small>{note(u) || "–"}</small>) },
        { name: "mode", of: (u) => <span class={u.mode === "shadow" ? "tag trial" : "tag"}>{modes[u.mode ?? "enforce"]}</span> },
        { name: "limit", wide: true, of: (u) => <Text of={u.limit ?? "–"} /> },
        { name: "demand", of: (u) => <Meter of={u.used} /> },
        { name: "requests now", right: true, of: (u) => (u.mode === "shadow" ? "–" : <Num of={u.admitted_per_second + u.denied_per_second} unit="/s" />) },
      ]}
    />
  )
}

export function note(u: Use): string {
  return { "matched-nothing": "matched no request", "key-missing": "no request had its key" }[u.hint ?? ""] ?? ""
}

interface Row {
  rule: string
  key: string
  requests?: number
  rejected?: number
  rate?: number
}

function Keys({ busiest, rejected }: { busiest: HistoryKeys | null; rejected: HistoryKeys | null }) {
  const rows = new Map<string, Row>()
  for (const k of busiest?.keys ?? []) rows.set(k.rule + "\n" + k.key, { rule: k.rule, key: k.key, requests: k.requests })
  for (const k of rejected?.keys ?? []) {
    const id = k.rule + "\n" + k.key
    rows.set(id, { rule: k.rule, key: k.key, ...rows.get(id), rejected: k.requests })
  }
  const live = forgetful.value || busiest?.keys.length === 0 // keys are recorded once a minute
  if (live) for (const k of top.value?.keys ?? []) rows.set(k.rule + "\n" + k.key, { rule: k.rule, key: k.key, rate: certain(k) })
  const all = [...rows.values()].filter((k) => !onTrial(k.rule)).sort((a, b) => (b.rate ?? b.requests ?? b.rejected ?? 0) - (a.rate ?? a.requests ?? a.rejected ?? 0))
  return (
    <Table
      caption="Top keys"
      rows={all.slice(0, 10)}
      id={(k) => k.rule + "\n" + k.key}
      empty={live || busiest ? "No key has come yet." : "…"}
      columns={[
        { name: "key", of: (k) => <Text of={k.key || "all requests"} most={60} /> },
        { name: "rule", of: (k) => ruleLink(k.rule) },
        ...(live
          ? [{ name: "now", right: true, of: (k: Row) => <Num of={k.rate} unit="/s" /> }]
          : [
              { name: "requests", right: true, of: (k: Row) => <Num of={k.requests} /> },
              { name: "rejected", right: true, of: (k: Row) => <Num of={k.rejected ?? 0} /> },
            ]),
      ]}
    />
  )
}

function Regions({ of }: { of: Status }) {
  const rate = (r: Region) => {
    const u = of.regions?.find((one) => (one.region || "no name") === r.name)
    return { denied: u?.denied_per_second ?? 0, all: u && u.admitted_per_second + u.denied_per_second }
  }
  return (
    <Table
      caption="Regions"
      rows={regionsOf(of).filter((r) => !r.aggregator)}
      id={(r) => r.name}
      empty="No member has been heard yet."
      columns={[
        { name: "region", of: (r) => <Text of={r.name} /> },
        { name: "state", of: (r) => (r.cutOff ? <strong class="bad">cut off {r.cutOff}</strong> : <span class="good">reports</span>) },
        { name: "requests now", right: true, of: (r) => <Num of={rate(r).all} unit="/s" /> },
        { name: "rejected", right: true, of: (r) => <Part of={rate(r).denied} all={rate(r).all} /> },
        { name: "PoPs", right: true, of: (r) => <Num of={r.pops.length} /> },
        { name: "rules", of: (r) => <Versions of={[...r.replicas, ...r.pops]} /> },
      ]}
    />
  )
}

function Part({ of, all }: { of: number; all?: number }) {
  return <span class="num">{all ? percent(of / all) : "–"}</span>
}

function Versions({ of }: { of: Member[] }) {
  const old = of.filter((m) => m.rules_version !== inForce.value?.version).length
  return old ? <strong class="bad">{old} with other rules</strong> : <>{of.length ? "the same" : "–"}</>
}
