// Regions, their members, leases of global limits, and the audit log.

import { useEffect, useState } from "preact/hooks"
import { percent, shortRevision, visible } from "./format"
import { fromFile, useKept } from "./history"
import { Leases } from "./keys"
import { status, watch } from "./live"
import { ofCutOff, regionsOf, type Region } from "./regions"
import type { AuditEntry, Member, Page } from "./types"
import { Failure, useAnswer } from "./forms"
import { Age, Card, Num, Revision, Table, Text, Time } from "./widgets"

export function Fleet() {
  useEffect(() => watch({ top: "key", limit: 512 }), [])
  const s = status.value
  const regions = s ? regionsOf(s) : []
  return (
    <>
      <h1>Fleet</h1>
      <Card title="Regions">
        <Regions rows={regions} />
      </Card>
      <Card title={`Replicas and PoPs (${s?.members.length ?? 0})`} id="members">
        <Members rows={regions} />
      </Card>
      <Leases />
      <Audit />
    </>
  )
}

function Regions({ rows }: { rows: Region[] }) {
  return (
    <Table
      caption="Regions"
      rows={rows}
      id={(r) => r.name}
      empty="No replica has reported yet."
      columns={[
        { name: "region", of: (r) => <Text of={r.name} /> },
        { name: "state", of: (r) => <State of={r} /> },
        { name: "replicas", right: true, of: (r) => <Num of={r.replicas.length} /> },
        { name: "PoPs", right: true, of: (r) => (r.aggregator ? "" : <Num of={r.pops.length} />) },
        { name: "reserve of global limits", right: true, of: (r) => (r.aggregator ? "" : percent(Math.max(0, ...r.replicas.map((m) => m.reserve_per_mille)) / 1000)) },
      ]}
    />
  )
}

function State({ of }: { of: Region }) {
  if (!of.cutOff) return <>{of.aggregator ? "running" : "connected"}</>
  return <strong class="bad">cut off {of.cutOff}</strong>
}

interface Row extends Member {
  of: Region
}

function Members({ rows }: { rows: Region[] }) {
  const all: Row[] = rows.flatMap((of) => [...of.replicas, ...of.pops].map((m) => ({ ...m, of })))
  return (
    <Table
      caption="Replicas and PoPs"
      rows={all}
      id={(m) => m.holder}
      empty="No replica has reported yet."
      columns={[
        { name: "region", of: (m) => <Text of={m.of.name} /> },
        { name: "name", of: (m) => <Text of={m.kind === "pop" ? m.name : "replica on " + m.name} /> },
        { name: "problem", wide: true, of: (m) => <Problem of={m} /> },
        { name: "version", of: (m) => <Text of={m.version} most={24} /> },
        { name: "rules", of: (m) => (m.rules_revision ? <Revision of={m.rules_revision} /> : <Text of={m.rules_version.slice(0, 8) || "none"} />) },
        { name: "running for", right: true, of: (m) => <Age ms={m.age_ms} /> },
        { name: "keys", right: true, of: (m) => <Num of={m.keys} /> },
        { name: "table full", right: true, of: (m) => (m.places ? <span class="num">{percent(m.keys / m.places)}</span> : "–") },
        { name: "Redis", of: (m) => <Text of={m.redis ?? "–"} /> },
      ]}
    />
  )
}

/** What is not well about a member. A region that is cut off is reported once, in its own row. */
function Problem({ of: m }: { of: Row }) {
  if (!m.problem) return <span class="muted">none</span>
  if (m.of.cutOff && ofCutOff.test(m.problem)) return <span class="muted">region is cut off</span>
  return (
    <strong class="bad">
      <Short of={m.problem} />
    </strong>
  )
}

/** The operations of the audit log in words. */
const words: Record<string, string> = {
  "rules.apply": "applied rules",
  "rules.rollback": "rolled back to",
  "override.set": "set override",
  "override.remove": "ended override",
  "candidate.set": "set candidate",
  "candidate.remove": "ended candidate",
  "key.reset": "reset the counters of",
  "region.dead": "declared dead:",
}

function Audit() {
  const [before, setBefore] = useState("")
  const kept = useKept()
  const page = useAnswer<Page<AuditEntry>>(kept ? "audit?limit=50" + (before && "&before=" + encodeURIComponent(before)) : null)
  return (
    <Card title="Audit log">
      <Failure of={page.error} />
      <Table
        caption="Audit log"
        rows={page.value?.items ?? []}
        id={(e) => e.id}
        empty={kept === false ? fromFile : !page.value ? "" : "Nobody has changed anything yet."}
        columns={[
          { name: "when", of: (e) => <Time at={e.when} /> },
          { name: "who", of: (e) => <Text of={e.who} /> },
          { name: "what", wide: true, of: (e) => <Short of={`${words[e.what] ?? e.what} ${e.on ?? ""}`} /> },
          { name: "before", of: (e) => <Short of={e.before ?? ""} /> },
          { name: "after", of: (e) => <Short of={e.after ?? ""} /> },
          { name: "reason", wide: true, of: (e) => <Text of={e.why ?? ""} /> },
        ]}
      />
      {(before || page.value?.next) && (
        <button type="button" class="quiet" onClick={() => setBefore(String(page.value?.next ?? ""))}>
          {page.value?.next ? "Older changes" : "Newest changes"}
        </button>
      )}
    </Card>
  )
}

/** A text of the API with short revisions; whole when one points at it. */
function Short({ of }: { of: string }) {
  return (
    <span title={visible(of, 1000)}>
      <Text of={of.replace(/\b\d{13,16}\b/g, (digits) => shortRevision(Number(digits)))} most={60} />
    </span>
  )
}
