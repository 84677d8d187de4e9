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
      {held && <Table caption="Counters" rows={held.items} id={(c) => c.rule + c.variant} empty="It is not counted." columns={columns} />}
      <form
        onSubmit={(e) => {
          e.preventDefault()
          void reset()
        }}
      >
        <Field label="Reason" value={why} set={setWhy} required maxLength={2000} hint="What PoPs have on lease stays there; they keep rejecting for a short time." />
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

const columns = [
  { name: "counted as", of: (c: Counter) => <Text of={c.rule + (c.override ? " " + c.override : "")} /> },
  { name: "limit", right: true, of: (c: Counter) => (c.unlimited ? "none" : <Num of={c.limit} />) },
  { name: "remaining", right: true, of: (c: Counter) => <Num of={c.remaining} /> },
  { name: "on lease, at most", right: true, of: (c: Counter) => <Num of={c.out} /> },
  { name: "as new in", right: true, of: (c: Counter) => <span class="num">{duration(c.reset_ms)}</span> },
  { name: "own until", of: (c: Counter) => c.until && <Time at={c.until} /> },
]

/** The busiest key of each rule that this program counts: what is left, and what PoPs or, of global limits, regions have on lease. */
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
      title="Leases"
      actions={
        <button type="button" class="quiet" disabled={busy || !ready} onClick={() => void look()}>
          Look
        </button>
      }
    >
      <Failure of={error} />
      <Table
        caption="Leases of the busiest key of each rule"
        rows={held ?? []}
        id={(h) => h.counter.rule + h.counter.variant}
        empty={held ? "No key that is counted here has come in the last seconds." : "Counters are looked at when you ask for it, which operators may."}
        columns={[
          { name: "rule", of: (h) => ruleLink(h.of.rule) },
          { name: "its busiest key", of: (h) => <Text of={h.of.key || "all requests"} most={60} /> },
          ...columns.slice(1, 4).map((c) => ({ ...c, of: (h: { counter: Counter }) => c.of(h.counter) })),
        ]}
      />
    </Card>
  )
}
