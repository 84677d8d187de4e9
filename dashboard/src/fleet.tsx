// All members, what regions hold of global limits, and who changed what.

import { useEffect, useState } from "preact/hooks"
import { percent } from "./format"
import { fromFile, History, useKept } from "./history"
import { Leases } from "./keys"
import { status, watch } from "./live"
import type { AuditEntry, Member, Page } from "./types"
import { Failure, useAnswer } from "./forms"
import { Age, Card, Num, Table, Text, Time } from "./widgets"

export function Fleet() {
  useEffect(() => watch({ top: "key", limit: 512 }), [])
  const members = status.value?.members ?? []
  const global = members.filter((m) => m.kind !== "pop" && m.reserve_per_mille > 0)
  return (
    <>
      <h1>Fleet</h1>
      <Card title={`Members (${members.length})`} id="members">
        <Members rows={members} />
      </Card>
      <Card title="Reserves of global limits">
        <Table
          caption="Reserves"
          rows={global}
          id={(m) => m.holder}
          empty="No region has a reserve: no limit is shared by regions, or this is no aggregator."
          columns={[
            { name: "region", of: (m) => <Text of={m.region ?? "–"} /> },
            { name: "replica", of: (m) => <Text of={m.name} /> },
            { name: "of each global limit", right: true, of: (m) => <span class="num">{percent(m.reserve_per_mille / 1000)}</span> },
            { name: "without the aggregator", of: (m) => (m.degraded_ms ? <Age ms={m.degraded_ms} /> : "no") },
          ]}
        />
      </Card>
      <Leases />
      <History changed={() => undefined} />
      <Audit />
    </>
  )
}

function Members({ rows }: { rows: Member[] }) {
  return (
    <Table
      caption="Members"
      rows={rows}
      id={(m) => m.holder}
      empty="No member has been heard yet."
      columns={[
        { name: "kind", of: (m) => m.kind },
        { name: "region", of: (m) => <Text of={m.region ?? "–"} /> },
        { name: "name", of: (m) => <Text of={m.name} /> },
        { name: "version", of: (m) => <Text of={m.version} most={24} /> },
        { name: "rules", right: true, of: (m) => m.rules_revision || <Text of={m.rules_version.slice(0, 8) || "none"} /> },
        { name: "up", right: true, of: (m) => <Age ms={m.age_ms} /> },
        { name: "keys", right: true, of: (m) => <Num of={m.keys} /> },
        { name: "of its table", right: true, of: (m) => (m.places ? <span class="num">{percent(m.keys / m.places)}</span> : "–") },
        { name: "Redis", of: (m) => <Text of={m.redis ?? "–"} /> },
        { name: "problem", of: (m) => (m.problem ? <strong class="bad">{<Text of={m.problem} />}</strong> : "") },
      ]}
    />
  )
}

function Audit() {
  const [before, setBefore] = useState("")
  const kept = useKept()
  const page = useAnswer<Page<AuditEntry>>(kept ? "audit?limit=50" + (before && "&before=" + encodeURIComponent(before)) : null)
  return (
    <Card title="Audit">
      <Failure of={page.error} />
      <Table
        caption="Who changed what"
        rows={page.value?.items ?? []}
        id={(e) => e.id}
        empty={kept === false ? fromFile : !page.value ? "" : "Nobody has changed anything."}
        columns={[
          { name: "when", of: (e) => <Time at={e.when} /> },
          { name: "who", of: (e) => <Text of={e.who} /> },
          { name: "what", of: (e) => <Text of={e.what} /> },
          { name: "on", of: (e) => <Text of={e.on ?? ""} /> },
          { name: "before", of: (e) => <Text of={e.before ?? ""} most={60} /> },
          { name: "after", of: (e) => <Text of={e.after ?? ""} most={60} /> },
          { name: "why", of: (e) => <Text of={e.why ?? ""} /> },
        ]}
      />
      {(before || page.value?.next) && (
        <button type="button" class="quiet" onClick={() => setBefore(String(page.value?.next ?? ""))}>
          {page.value?.next ? "Older changes" : "The newest changes"}
        </button>
      )}
    </Card>
  )
}
