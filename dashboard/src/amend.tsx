// Overrides of keys and candidates: limits that people set for a time.

import { useState } from "preact/hooks"
import { get, query } from "./api"
import type { Entry } from "./types"
import { Dialog, Failure, Field, useAction } from "./forms"
import { said, Table, Text, Time } from "./widgets"

const ends: [name: string, ms: number][] = [
  ["15 minutes", 900_000],
  ["1 hour", 3_600_000],
  ["1 day", 86_400_000],
  ["7 days", 604_800_000],
]

/** A limit as the API takes it: of 50/1m a text, of 5 a number. */
function typed(text: string): unknown {
  return /^\d+$/.test(text.trim()) ? Number(text) : text.trim()
}

/** Limits one key of a rule until a time, or tries another limit beside the rule's. */
export function AmendDialog(p: { kind: "override" | "candidate"; rule: string; counted?: string; limit?: string; close: () => void }) {
  const [limit, setLimit] = useState(p.limit ?? "")
  const [why, setWhy] = useState("")
  const [end, setEnd] = useState(1)
  const { busy, error, run } = useAction()
  const counted = p.counted ?? ""
  const apply = () =>
    run(async () => {
      const until = new Date(Math.ceil((Date.now() + ends[end]![1]) / 1000) * 1000).toISOString()
      const key = p.kind === "override" ? [counted] : undefined
      await get(p.kind + "s", { method: "PUT", body: { rule: p.rule, key, limit: typed(limit), until, why } })
      said.value = p.kind === "override" ? "The key has its own limit now." : "The candidate is counted now."
      p.close()
    })
  return (
    <Dialog title={p.kind === "override" ? "Limit one key" : "Try a limit"} close={p.close}>
      <p>
        Rule <Text of={p.rule} />
        {p.kind === "override" && (
          <>
            , key <Text of={counted} />
          </>
        )}
        {p.kind === "candidate" && ". The candidate is counted beside the rule's own limit and rejects nothing."}
      </p>
      <form
        onSubmit={(e) => {
          e.preventDefault()
          void apply()
        }}
      >
        <Field label="Limit" value={limit} set={setLimit} required hint="Such as 50/1m." />
        <p class="field">
          <label for="until">Until</label>
          <select id="until" value={String(end)} onChange={(e) => setEnd(Number(e.currentTarget.value))}>
            {ends.map(([name], i) => (
              <option key={name} value={String(i)}>
                in {name}
              </option>
            ))}
          </select>
        </p>
        <Field label="Reason" value={why} set={setWhy} required maxLength={2000} />
        <Failure of={error} />
        <p class="buttons">
          <button type="submit" disabled={busy}>
            {p.kind === "override" ? "Limit this key" : "Try it"}
          </button>
          <button type="button" class="quiet" onClick={p.close}>
            Cancel
          </button>
        </p>
      </form>
    </Dialog>
  )
}

/** The overrides and candidates of a rule, each with a way to end it. */
export function Entries({ all, changed }: { all: Entry[]; changed: () => void }) {
  const { busy, error, run } = useAction()
  const end = (e: Entry) =>
    run(async () => {
      const why = "ended in the dashboard"
      await get(query(e.kind + "s", { rule: e.rule, key: e.key, hash: e.hash, why }), { method: "DELETE" })
      said.value = `The ${e.kind} has ended.`
      changed()
    })
  return (
    <>
      <Failure of={error} />
      <Table
        caption="Overrides and candidates"
        rows={all}
        id={(e) => e.kind + JSON.stringify(e.key) + e.hash}
        empty="No override and no candidate is set."
        columns={[
          { name: "kind", of: (e) => e.kind },
          { name: "key", of: (e) => <Text of={e.key?.join("|") ?? e.hash ?? "–"} /> },
          { name: "limit", of: (e) => <Text of={typeof e.limit === "string" ? e.limit : JSON.stringify(e.limit ?? "several")} /> },
          { name: "until", of: (e) => <Time at={e.until} /> },
          { name: "who and reason", wide: true, of: (e) => <Text of={e.who + ": " + e.why} /> },
          { name: "note", wide: true, of: (e) => <Text of={e.problem ?? ""} /> },
          {
            name: "end",
            of: (e) => (
              <button type="button" class="quiet" disabled={busy} onClick={() => void end(e)}>
                End now
              </button>
            ),
          },
        ]}
      />
    </>
  )
}
