// What all pages are made of.

import type { ComponentChildren } from "preact"
import { useState } from "preact/hooks"
import { signal } from "@preact/signals"
import { duration, madeAt, number, shortRevision, time, visible } from "./format"

/** A time in the viewer's zone; the date and UTC when one points at it. */
export function Time({ at }: { at: string }) {
  const date = new Date(at)
  return (
    <time dateTime={at} title={date.toISOString().replace("T", " ").slice(0, 19) + " UTC"}>
      {time(date)}
    </time>
  )
}

/** A revision of the rules: its last digits and its date, all digits when one points at it. */
export function Revision({ of, undated }: { of: number; undated?: boolean }) {
  const made = undated ? null : madeAt(of)
  return (
    <span class="num" title={"revision " + of}>
      {shortRevision(of)}
      {made && <span class="muted"> {time(made)}</span>}
    </span>
  )
}

/** Texts that are at most as long are not broken in a cell: an IPv6 prefix has 43 characters. */
const unbroken = 44

/** Texts of others: keys, reasons, names. */
export function Text({ of, most }: { of: string; most?: number }) {
  return (
    <bdi class={of.length > unbroken ? "text" : "text short"} title={of.length > (most ?? 120) ? visible(of, 1000) : undefined}>
      {visible(of, most)}
    </bdi>
  )
}

export function Num({ of, unit }: { of: number | undefined; unit?: string }) {
  return <span class="num">{of === undefined ? "–" : number(of) + (unit ?? "")}</span>
}

export function Age({ ms }: { ms: number }) {
  return <span class="num">{duration(ms)}</span>
}

/** A link to a page below #. */
export function Link(p: { to: string; children: ComponentChildren; current?: boolean }) {
  return (
    <a href={"#/" + p.to} aria-current={p.current ? "page" : undefined}>
      {p.children}
    </a>
  )
}

export function ruleLink(rule: string) {
  return (
    <Link to={"rule/" + encodeURIComponent(rule)}>
      <Text of={rule} />
    </Link>
  )
}

/** The demand for a limit, that of its busiest key ÷ limit: what is more than all of it is rejected. */
export function Meter({ of }: { of: number | undefined }) {
  if (of === undefined) return <span class="num">–</span>
  const shown = Math.round(of * 100)
  return (
    <span class={of > 1 ? "meter over" : of > 0.8 ? "meter near" : "meter"}>
      <meter low={0.8} high={0.99} optimum={0} value={Math.min(of, 1)} aria-label={shown + " percent of the limit"} />
      <span class="num">{shown > 999 ? "> 999" : shown} %</span>
    </span>
  )
}

export interface Column<T> {
  name: string
  of: (row: T) => ComponentChildren
  right?: boolean
  /** It has sentences, which need some width. */
  wide?: boolean
}

const classOf = (c: Column<never>) => (c.right ? "right" : c.wide ? "prose" : undefined)

/** Rows, lines and changes that are drawn at most: with very many a browser would hang. */
export const drawn = 200

/** A table, which has a filter if it has too many rows; what it says when it is empty is required. */
export function Table<T>(p: { caption: string; columns: Column<T>[]; rows: T[]; id: (row: T) => string; empty: ComponentChildren }) {
  const [filter, set] = useState("")
  const all = p.rows.length
  if (all === 0) return <p class="empty">{p.empty}</p>
  const rows = all > drawn && filter ? p.rows.filter((r) => Object.values(r as object).join("\n").includes(filter)) : p.rows
  return (
    <>
      {all > drawn && (
        <p>
          <input aria-label="Filter" placeholder="Filter" value={filter} onInput={(e) => set(e.currentTarget.value)} />{" "}
          <span role="status">
            {Math.min(rows.length, drawn)} of {all} rows are shown.
          </span>
        </p>
      )}
      <div class="wide" role="group" aria-label={p.caption} tabIndex={0}>
        <table>
          <caption class="hidden">{p.caption}</caption>
          <thead>
            <tr>
              {p.columns.map((c) => (
                <th key={c.name} scope="col" class={classOf(c)}>
                  {c.name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, drawn).map((row) => (
              <tr key={p.id(row)}>
                {p.columns.map((c) => (
                  <td key={c.name} class={classOf(c)}>
                    {c.of(row)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  )
}

export function Card(p: { title: string; children: ComponentChildren; actions?: ComponentChildren; id?: string }) {
  const id = p.id ?? p.title.toLowerCase().replace(/[^a-z]+/g, "-")
  return (
    <section aria-labelledby={id} class="card">
      <header>
        <h2 id={id}>{p.title}</h2>
        {p.actions}
      </header>
      {p.children}
    </section>
  )
}

/** What has been done, for people who see it and those who hear it. */
export const said = signal("")
