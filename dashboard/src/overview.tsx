// The first page: what passes and what is rejected, each region, and what needs a person.

import { useEffect } from "preact/hooks"
import { Rates } from "./chart"
import { percent } from "./format"
import { inForce, status, watch } from "./live"
import type { Member, Status, Use } from "./types"
import { Age, Card, Link, Meter, Num, ruleLink, Table, Text } from "./widgets"

export function Overview() {
  useEffect(() => watch({}), [])
  const s = status.value
  return (
    <>
      <h1>Overview</h1>
      {s ? <Shown of={s} /> : <p class="empty">Waiting for what the running system reports…</p>}
    </>
  )
}

function Shown({ of: s }: { of: Status }) {
  return (
    <>
      <Needs of={s} />
      <Card title="Decisions">
        <Totals of={s} />
        <Rates rule="" label="Decisions a second over the last ten minutes, admitted and denied, of all rules together" />
      </Card>
      <div class="two">
        <Card title="Regions">
          <Regions of={s} />
        </Card>
        <Card title="Rules that reject most">
          <Rejecting of={s.rules} />
        </Card>
      </div>
      <Card title="All rules">
        <RuleTable rules={s.rules} />
      </Card>
    </>
  )
}

function Totals({ of }: { of: Status }) {
  const sum = (what: (u: Use) => number) => of.rules.reduce((n, u) => n + what(u), 0)
  return (
    <dl class="totals">
      <div>
        <dt>admitted</dt>
        <dd>
          <Num of={sum((u) => u.admitted_per_second)} unit="/s" />
        </dd>
      </div>
      <div>
        <dt>denied</dt>
        <dd>
          <Num of={sum((u) => u.denied_per_second)} unit="/s" />
        </dd>
      </div>
      <div>
        <dt>would be denied in all</dt>
        <dd>
          <Num of={sum((u) => u.shadow_denied)} />
        </dd>
      </div>
      <div>
        <dt>PoPs</dt>
        <dd>
          <Num of={of.members.filter((m) => m.kind === "pop").length} />
        </dd>
      </div>
    </dl>
  )
}

interface Region {
  name: string
  members: Member[]
}

function Regions({ of }: { of: Status }) {
  const names = [...new Set(of.members.map((m) => m.region ?? ""))].sort()
  const regions: Region[] = names.map((name) => ({ name, members: of.members.filter((m) => (m.region ?? "") === name) }))
  const replicas = (r: Region) => r.members.filter((m) => m.kind !== "pop")
  return (
    <Table
      caption="Regions"
      rows={regions}
      id={(r) => r.name}
      empty="No member has been heard yet."
      columns={[
        { name: "region", of: (r) => <Text of={r.name || "–"} /> },
        { name: "replicas", right: true, of: (r) => <Num of={replicas(r).length} /> },
        { name: "PoPs", right: true, of: (r) => <Num of={r.members.length - replicas(r).length} /> },
        { name: "reserve", right: true, of: (r) => percent(Math.max(0, ...replicas(r).map((m) => m.reserve_per_mille)) / 1000) },
        { name: "degraded", of: (r) => <Degraded for={Math.max(0, ...r.members.map((m) => m.degraded_ms))} /> },
        { name: "rules", of: (r) => <Versions of={r.members} /> },
      ]}
    />
  )
}

function Degraded(p: { for: number }) {
  return p.for > 0 ? (
    <strong class="bad">
      for <Age ms={p.for} />
    </strong>
  ) : (
    <>no</>
  )
}

function Versions({ of }: { of: Member[] }) {
  const old = of.filter((m) => m.rules_version !== inForce.value?.version).length
  return old ? <strong class="bad">{old} with other rules</strong> : <>the same</>
}

function Rejecting({ of }: { of: Use[] }) {
  const rejecting = of
    .filter((u) => u.denied + u.shadow_denied > 0)
    .sort((a, b) => b.denied_per_second - a.denied_per_second || b.denied - a.denied || b.shadow_denied - a.shadow_denied)
    .slice(0, 5)
  return (
    <Table
      caption="Rules that reject most"
      rows={rejecting}
      id={(u) => u.rule}
      empty="No rule has rejected a request."
      columns={[
        { name: "rule", of: (u) => ruleLink(u.rule) },
        { name: "denied", right: true, of: (u) => <Num of={u.denied_per_second} unit="/s" /> },
        { name: "in all", right: true, of: (u) => <Num of={u.denied} /> },
        { name: "would deny", right: true, of: (u) => <Num of={u.shadow_denied} /> },
      ]}
    />
  )
}

function RuleTable({ rules }: { rules: Use[] }) {
  return (
    <Table
      caption="All rules"
      rows={rules}
      id={(u) => u.rule}
      empty={
        <>
          There are no rules. <Link to="edit">Write the first one</Link>
        </>
      }
      columns={[
        { name: "rule", of: (u) => ruleLink(u.rule) },
        { name: "used of the limit", of: (u) => <Meter of={u.used} /> },
        { name: "admitted", right: true, of: (u) => <Num of={u.admitted_per_second} unit="/s" /> },
        { name: "denied", right: true, of: (u) => <Num of={u.denied_per_second} unit="/s" /> },
        { name: "would deny", right: true, of: (u) => <Num of={u.shadow_denied} /> },
        { name: "note", of: (u) => note(u) },
      ]}
    />
  )
}

export function note(u: Use): string {
  return { "matched-nothing": "matched no request", "key-missing": "no request had its key" }[u.hint ?? ""] ?? ""
}

/** What is not well, each with where to look. */
function Needs({ of }: { of: Status }) {
  const needs = [
    ...(of.in_force.problem ? [{ what: "rules", why: of.in_force.problem }] : []),
    ...of.missing_regions.map((r) => ({ what: "region " + r, why: "was not heard for 3 s" })),
    ...of.members.filter((m) => m.problem).map((m) => ({ what: `${m.kind} ${m.name}`, why: m.problem! })),
    ...of.rules.filter((u) => u.hint === "key-missing").map((u) => ({ what: "rule " + u.rule, why: note(u) })),
  ]
  if (needs.length === 0) return <p class="well">Nothing needs you.</p>
  return (
    <Card title={`Needs you (${needs.length})`} id="needs-you">
      <ul class="needs">
        {needs.slice(0, 20).map((n, i) => (
          <li key={i}>
            <strong>
              <Text of={n.what} />
            </strong>
            : <Text of={n.why} most={300} />
          </li>
        ))}
      </ul>
      <Link to="fleet">All members</Link>
    </Card>
  )
}
