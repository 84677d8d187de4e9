// What changes between two versions of the rules.

import { written } from "./format"
import type { Diff } from "./types"
import { drawn, Text } from "./widgets"

export function DiffView({ of, only }: { of: Diff; only?: string }) {
  const rules = of.rules.filter((r) => !only || written(r.name) === only)
  const others = of.rules.length - rules.length
  const changes = rules.reduce((n, r) => n + r.changes.length, 0)
  let left = drawn
  const take = (r: Diff["rules"][number]) => {
    const some = r.changes.slice(0, left)
    left -= some.length
    return some
  }
  if (of.rules.length === 0) return <p class="well">No rule changes.</p>
  return (
    <>
      {rules.length === 0 && <p>Nothing changes for this rule.</p>}
      <ul class="diff">
        {rules.slice(0, drawn).map((r) => (
          <li key={r.name}>
            <strong>
              <Text of={r.name} />
            </strong>
            : {r.change}
            <ul>
              {take(r).map((c, i) => (
                <li key={i}>
                  <Text of={c.what} />
                  {c.old !== undefined && (
                    <del>
                      <Text of={c.old} most={300} />
                    </del>
                  )}
                  {c.new !== undefined && (
                    <ins>
                      <Text of={c.new} most={300} />
                    </ins>
                  )}
                  {c.counters && <span class="muted"> counters {c.counters === "kept" ? "are kept" : "start at zero"}</span>}
                  {c.effect && <span class="muted"> {c.effect}</span>}
                </li>
              ))}
              <Example says="now applies to" of={r.applies_to} />
              <Example says="no longer applies to" of={r.applied_to} />
            </ul>
          </li>
        ))}
      </ul>
      <p class="muted">
        changed {of.changed}, added {of.added}, removed {of.removed}
        {changes > drawn && `; the first ${drawn} of ${changes} changes; weir rules diff prints all`}
        {only && others > 0 && `; ${others} other rules change, too`}
      </p>
    </>
  )
}

/** A request in one line. */
function Example({ says, of: q }: { says: string; of?: Record<string, unknown> }) {
  if (!q) return null
  const rest = Object.entries(q).filter(([name]) => !["method", "host", "path"].includes(name))
  const line = `${q.method ?? "GET"} ${q.host ?? ""}${q.path} ` + rest.map(([name, v]) => name + " " + (typeof v === "string" ? v : JSON.stringify(v))).join(", ")
  return (
    <li>
      {says}{" "}
      <code>
        <Text of={line} most={300} />
      </code>
    </li>
  )
}
