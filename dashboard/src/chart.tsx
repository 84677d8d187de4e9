// A chart of rates over the last ten minutes.

import { useEffect, useRef } from "preact/hooks"
import uPlot from "uplot"
import { points, ticks } from "./live"
import { number } from "./format"

/** The colour of a custom property of the style sheet. */
function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim()
}

/** Admitted and denied a second of a rule; of all together if it is empty. */
export function Rates({ rule, label }: { rule: string; label: string }) {
  const at = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const below = at.current!
    let plot: uPlot | null = null
    const make = () => {
      plot?.destroy()
      plot = new uPlot(options(below.clientWidth), data(rule), below)
    }
    make()
    const size = new ResizeObserver(() => plot?.setSize({ width: below.clientWidth, height }))
    size.observe(below)
    const theme = matchMedia("(prefers-color-scheme: dark)")
    theme.addEventListener("change", make)
    const end = ticks.subscribe(() => plot?.setData(data(rule)))
    return () => {
      end()
      size.disconnect()
      theme.removeEventListener("change", make)
      plot?.destroy()
    }
  }, [rule])
  return <div class="chart" ref={at} role="img" aria-label={label} />
}

const height = 180

function options(width: number): uPlot.Options {
  const axis = { stroke: colour("--text"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } }
  const line = (label: string, name: string, dash: number[]): uPlot.Series => ({ label, stroke: colour(name), width: 2, dash, points: { show: false }, value: (_, v) => (v === null ? "–" : number(v) + "/s") })
  return {
    width,
    height,
    cursor: { drag: { x: false, y: false } },
    scales: { y: { range: (_, __, max) => [0, Math.max(max * 1.1, 1)] } },
    axes: [axis, { ...axis, size: 56, values: (_, ticks) => ticks.map((t) => number(t)) }],
    series: [{}, line("admitted", "--good", []), line("denied", "--bad", [6, 3])],
  }
}

function data(rule: string): uPlot.AlignedData {
  const all = points(rule)
  return [all.map((p) => p.at), all.map((p) => p.admitted), all.map((p) => p.denied)]
}
