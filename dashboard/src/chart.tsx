// Charts of what rules decided over time.

import { useEffect, useRef } from "preact/hooks"
import uPlot from "uplot"
import { duration, number, percent, time } from "./format"
import { countsOf, forgetful, past, type Span, span, spans, unread } from "./past"
import type { Counts } from "./types"
import { Text } from "./widgets"

/** The colour of a custom property of the style sheet. */
function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim()
}

interface Chart {
  /** Which rules it is about. */
  of: (rule: string) => boolean
  /** It shows what would be rejected; else what is admitted and rejected. */
  trial?: boolean
  /** Requests a second that a limit lets pass of one key. */
  limit?: number
  label: string
}

/** Requests a second over the span that pages look at. A time of which nothing is known is a gap. */
export function Rates(p: Chart) {
  const at = useRef<HTMLDivElement>(null)
  const key = p.label + p.trial + p.limit
  useEffect(() => {
    const below = at.current!
    let plot: uPlot | null = null
    const make = () => {
      plot?.destroy()
      plot = new uPlot(options(below.clientWidth, p), data(p), below)
      latest(plot)
    }
    make()
    const size = new ResizeObserver(() => plot?.setSize({ width: below.clientWidth, height }))
    size.observe(below)
    const theme = matchMedia("(prefers-color-scheme: dark)")
    theme.addEventListener("change", make)
    const end = past.subscribe(() => {
      plot?.setData(data(p))
      if (plot) latest(plot)
    })
    return () => {
      end()
      size.disconnect()
      theme.removeEventListener("change", make)
      plot?.destroy()
    }
  }, [key])
  return <div class="chart" ref={at} role="img" aria-label={p.label} />
}

/** Has the legend show the newest rates while nobody points at others. */
function latest(plot: uPlot): void {
  const at = (plot.data[1] as (number | null)[]).findLastIndex((v) => v !== null)
  if (plot.cursor.idx == null && at >= 0) plot.setLegend({ idx: at }, false)
}

const height = 200

/** How far above the traffic a limit may be and still be in the chart. */
const near = 3

function options(width: number, p: Chart): uPlot.Options {
  const axis = { stroke: colour("--text"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } }
  const line = (label: string, name: string, dash: number[]): uPlot.Series => ({
    label,
    stroke: colour(name),
    width: 2,
    dash,
    points: { show: false },
    value: (_, v) => (v === null ? "–" : number(v) + "/s"),
  })
  const own = p.trial ? [line("would be rejected", "--near", [6, 3])] : [line("admitted", "--good", []), line("rejected", "--bad", [6, 3])]
  const limit = p.limit ? [line("limit of one key", "--muted", [2, 4])] : []
  return {
    width,
    height,
    hooks: { setCursor: [latest] },
    cursor: { drag: { x: false, y: false } },
    scales: { y: { range: (_, __, max) => [0, Math.max(max * 1.1, 1)] } },
    axes: [
      { ...axis, space: 70, values: (_, all, __, ___, step) => all.map((t) => clock(t, step)) },
      { ...axis, size: 56, label: "requests/s", labelSize: 20, labelFont: "12px system-ui", values: (_, all) => all.map((t) => number(t)) },
    ],
    series: [{ value: (_, t) => (t === null ? "–" : time(new Date(t * 1000))) }, ...own, ...limit],
  }
}

/** A time of an axis on a clock of 24 hours, with seconds where steps are shorter than a minute. */
function clock(at: number, step: number): string {
  const two = (n: number) => String(n).padStart(2, "0")
  const t = new Date(at * 1000)
  return two(t.getHours()) + ":" + two(t.getMinutes()) + (step < 60 ? ":" + two(t.getSeconds()) : "")
}

function data(p: Chart): uPlot.AlignedData {
  const h = past.value
  if (!h) return [[], [], ...(p.trial ? [] : [[]]), ...(p.limit ? [[]] : [])] as unknown as uPlot.AlignedData
  const begin = Date.parse(h.from) / 1000
  const seconds = h.step_ms / 1000
  const counts = countsOf(h, p.of)
  const rates = (list: number[]) => list.map((n, i) => (h.known[i] ? n / seconds : null))
  const own = p.trial ? [rates(counts.shadow_denied)] : [rates(counts.admitted), rates(counts.denied)]
  const highest = Math.max(0, ...own.flat().map((v) => v ?? 0))
  const shown = p.limit !== undefined && p.limit <= Math.max(highest * near, 1) ? p.limit : null
  return [h.known.map((_, i) => begin + (i + 1) * seconds), ...own, ...(p.limit ? [h.known.map(() => shown)] : [])]
}

/** The choice of how far back all charts look. */
export function Spans() {
  const step = past.value?.step_ms ?? 0
  const coarse = step > (span.value === "24h" ? 60_000 : 10_000)
  if (forgetful.value) return <small>Since this page was opened, at most 10 minutes: no history is kept here.</small>
  return (
    <span class="buttons" role="group" aria-label="Time span">
      {unread.value && (
        <small class="bad">
          The history is not available: <Text of={unread.value} />
        </small>
      )}
      {coarse && <small>Steps of {duration(step)}, because the history has many rules.</small>}
      {(Object.keys(spans) as Span[]).map((s) => (
        <button key={s} type="button" class="quiet" aria-pressed={s === span.value} onClick={() => (span.value = s)}>
          {s === "15m" ? "15 min" : s.replace("h", " h")}
        </button>
      ))}
    </span>
  )
}

/** The part of requests that is rejected, with its course: a gap where nothing is known. */
export function Share({ of, trial }: { of: Counts<number[]>; trial: boolean }) {
  const known = past.value?.known ?? []
  const parts = 30
  const every = Math.max(1, Math.ceil(known.length / parts))
  const rejected = trial ? of.shadow_denied : of.denied
  const points: (number | null)[] = []
  for (let i = 0; i < known.length; i += every) {
    const sum = (list: number[]) => list.slice(i, i + every).reduce((n, one) => n + one, 0)
    const all = trial ? Math.max(...rejected) * every : sum(of.admitted) + sum(of.denied)
    points.push(known.slice(i, i + every).some(Boolean) ? (all ? sum(rejected) / all : 0) : null)
  }
  const x = (i: number) => ((i / Math.max(points.length - 1, 1)) * 80).toFixed(1)
  const path = points.map((v, i) => (v === null ? "" : `${i && points[i - 1] !== null ? "L" : "M"}${x(i)} ${(19 - v * 18).toFixed(1)}h.1`)).join("")
  const sum = (list: number[]) => list.reduce((n, one) => n + one, 0)
  const all = sum(of.admitted) + sum(of.denied)
  return (
    <span class="share">
      <svg viewBox="0 0 80 20" aria-hidden="true">
        <path class={trial ? "trial" : "line"} d={path} />
      </svg>
      <span class="num">{trial ? number(sum(rejected)) + " would be" : all ? percent(sum(rejected) / all) : "–"}</span>
    </span>
  )
}
