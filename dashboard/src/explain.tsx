// A test request: what each rule does with it, without counting it.

import { useState } from "preact/hooks"
import { get } from "./api"
import { written } from "./format"
import type { Example, Explained, Explanation } from "./types"
import { Failure, Field, useAction } from "./forms"
import { Num, Table, Text } from "./widgets"

/** Explains a request, which begins like one. Of a page about one rule the others that apply are listed, too. */
export function Explain({ rule, like }: { rule?: string; like?: Example }) {
  const [method, setMethod] = useState(like?.method || "GET")
  const [url, setURL] = useState(like ? (like.host ? "https://" + like.host : "") + like.path : "/")
  const [client, setClient] = useState(like?.client || "192.0.2.1")
  const [headers, setHeaders] = useState(Object.entries(like?.headers ?? {}).map(([name, value]) => name + ": " + value).join("\n"))
  const [answer, set] = useState<Explanation | null>(null)
  const { busy, error, run } = useAction()
  const ask = () => run(async () => set(await get<Explanation>("explain", { body: { method, url, client, headers: headersOf(headers) } })))
  const rows = (answer?.rules ?? []).filter((r) => r.applies || !rule || written(r.rule) === rule)
  return (
    <>
      <form
        class="row"
        onSubmit={(e) => {
          e.preventDefault()
          void ask()
        }}
      >
        <Field label="Method" value={method} set={setMethod} size={6} />
        <Field label="Path or URL" value={url} set={setURL} required size={30} />
        <Field label="Client address" value={client} set={setClient} size={16} />
        <p class="field">
          <label for="headers">Headers</label>
          <textarea id="headers" rows={Math.max(1, headers.split("\n").length)} value={headers} placeholder="x-user-id: ann" onInput={(e) => setHeaders(e.currentTarget.value)} />
        </p>
        <button type="submit" disabled={busy}>
          Explain
        </button>
      </form>
      <Failure of={error} />
      {answer && (
        <>
          <p role="status">{answer.rejected_by ? <>It is rejected by <Text of={answer.rejected_by} />.</> : verdict(answer)}</p>
          <Table caption="What each rule does" rows={rows} id={(r) => r.rule} empty="No rule applies to it." columns={columns} />
        </>
      )}
    </>
  )
}

function headersOf(text: string): Record<string, string> {
  const all: Record<string, string> = {}
  for (const line of text.split("\n")) {
    const at = line.indexOf(":")
    if (at > 0) all[line.slice(0, at).trim()] = line.slice(at + 1).trim()
  }
  return all
}

function verdict(of: Explanation): string {
  const all = of.rules.filter((r) => r.applies && r.mode !== "exempt" && !r.unlimited && !r.class)
  if (all.length === 0) return of.rules.some((r) => r.class) ? "It has no limit, and is rejected where a PoP has too much to do." : "No rule limits it."
  if (all.some((r) => !r.counters)) return "What the counters hold is not known here: operators see it, at the region or aggregator that counts."
  return "No rule rejects it, by what counters hold now."
}

const columns = [
  { name: "rule", of: (r: Explained) => <Text of={r.rule} /> },
  { name: "applies", of: (r: Explained) => <Text of={r.applies ? (r.class ? "yes, as " + r.class : "yes") : r.exempt_by ? "lifted by " + r.exempt_by : "no: " + (r.failed ?? "override")} /> },
  { name: "key", of: (r: Explained) => <Text of={r.counted ?? ""} /> },
  { name: "cost", right: true, of: (r: Explained) => <Num of={r.cost} /> },
  { name: "remaining", right: true, of: (r: Explained) => <Num of={r.counters?.[0]?.remaining} /> },
  { name: "limit", right: true, of: (r: Explained) => <Num of={r.counters?.[0]?.limit ?? r.limit} /> },
]
