// What the counters of a key hold, their reset, and what regions have on lease of global limits.

import { useEffect, useState } from "preact/hooks"
import { get, Problem } from "./api"
import { scopeOf } from "./document"
import { duration, written } from "./format"
import { Dialog, Failure, Field, useAction, useAnswer } from "./forms"
import { status, top, uses } from "./live"
import type { Counter, Rate, Rules } from "./types"
import { Card, Num, ruleLink, said, Table, Text, Time } from "./widgets"

type Counters = { items: Counter[] }

const peek = (rule: string, counted: string) => get<Counters>("keys:peek", { body: { rule, counted } })

/** What the counters of a key hold, and a way to reset them. */
export function KeyDialog({ rule, counted, close }: { rule: string; counted: string; close: () => void }) {
  const [held, set] = useState<Counters | null>(null)
  const [why, setWhy] = useState("")
  const { busy, error, run } = useAction()
  useEffect(() => void run(async () => set(await peek(rule, counted))), [])
  const reset = () =>
    run(async () => {
      set(await get<Counters>("keys:reset", { body: { rule, counted, why } }))
      said.value = "The counters are reset."
      setWhy("")
    })
  return (
    <Dialog title="Counters of a key" close={close}>
      <p>
        Rule <Text of={rule} />, key <Text of={counted} />
      </p>
      {held && <Table caption="Counters" rows={held.items} id={(c) => c.rule + c.variant} empty="No counter holds this key." columns={columns} />}
      <p class="muted">{lease}</p>
      <form
        onSubmit={(e) => {
          e.preventDefault()
          void reset()
        }}
      >
        <Field label="Reason" value={why} set={setWhy} required maxLength={2000} hint="A reset does not return leases, so PoPs reject for a short time longer." />
        <Failure of={error} />
        <p class="buttons">
          <button type="submit" disabled={busy || !held}>
            Reset the counters
          </button>
          <button type="button" class="quiet" onClick={close}>
            Close
          </button>
        </p>
      </form>
    </Dialog>
  )
}

const lease = "On lease are units that PoPs or regions hold. They may have used some of them already, so the figure is an upper bound."

const columns = [
  { name: "counted as", of: (c: Counter) => <Text of={c.rule + (c.override ? " " + c.override : "")} /> },
  { name: "limit", right: true, of: (c: Counter) => (c.unlimited ? "none" : <Num of={c.limit} />) },
  { name: "remaining", right: true, of: (c: Counter) => <Num of={c.remaining} /> },
  { name: "on lease", right: true, of: (c: Counter) => <Num of={c.out} /> },
  { name: "full again in", right: true, of: (c: Counter) => <span class="num">{duration(c.reset_ms)}</span> },
  { name: "blocked for", right: true, of: (c: Counter) => c.blocked && <span class="num">{duration(c.retry_after_ms ?? 0)}</span> },
  { name: "override ends", of: (c: Counter) => c.until && <Time at={c.until} /> },
]

/** The busiest key of each rule that this program counts, with the units that remain and those on lease: at PoPs or, of global limits, at regions. */
export function Leases() {
  const rules = useAnswer<Rules>("rules")
  const [held, set] = useState<{ of: Rate; counter: Counter }[] | null>(null)
  const { busy, error, run } = useAction()
  const busiest = () => {
    const first = new Map<string, Rate>()
    const here = status.value?.of === "all regions" ? "global" : "region"
    for (const k of top.value?.keys ?? []) {
      if (uses.value.has(k.rule) && !first.has(k.rule) && scopeOf(rules.value!.document, written(k.rule)) === here) first.set(k.rule, k)
    }
    return [...first.values()].slice(0, 20)
  }
  const look = () =>
    run(async () => {
      const all: { of: Rate; counter: Counter }[] = []
      for (const of of busiest()) {
        try {
          for (const counter of (await peek(of.rule, of.key)).items) if (counter.rule === of.rule) all.push({ of, counter })
        } catch (err) {
          if (!(err instanceof Problem) || !["counted-elsewhere", "no-rule"].includes(err.code)) throw err
        }
      }
      set(all)
    })
  const ready = top.value !== null && rules.value !== null
  return (
    <Card
      title="Leases of the busiest keys"
      id="leases"
      actions={
        <button type="button" class="quiet" disabled={busy || !ready} onClick={() => void look()}>
          Read counters
        </button>
      }
    >
      <Failure of={error} />
      <Table
        caption="Leases of the busiest key of each rule"
        rows={held ?? []}
        id={(h) => h.counter.rule + h.counter.variant}
        empty={held ? "No key that is counted here sent a request in the last seconds." : "Read counters shows the busiest key of each rule that is counted here. It needs the role operator."}
        columns={[
          { name: "rule", of: (h) => ruleLink(h.of.rule) },
          { name: "busiest key", of: (h) => <Text of={h.of.key || "all requests"} most={60} /> },
          ...columns.slice(1, 4).map((c) => ({ ...c, of: (h: { counter: Counter }) => c.of(h.counter) })),
        ]}
      />
      {held && held.length > 0 && <p class="muted">{lease}</p>}
    </Card>
  )
}
