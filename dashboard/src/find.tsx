// Find a limit: keys by their rates, and a line that one drags through them.

import { useEffect, useMemo, useState } from "preact/hooks"
import { AmendDialog } from "./amend"
import { limitOf, sheds } from "./document"
import { certain, number, percent, time, written } from "./format"
import { status, top, uses, watch } from "./live"
import type { Rules } from "./types"
import { useAnswer } from "./forms"
import { Card, drawn, Text } from "./widgets"

/** The rates of a rule's keys at some time, the largest first. */
interface Sample {
  at: string
  rates: number[]
  total: number // of all keys together, those that are in no list too
}

/** What a limit of so much a second would stop of a sample, if nobody came less often for it. */
function stopped(of: Sample, line: number): { keys: number; share: number } {
  const over = of.rates.filter((r) => r > line)
  const excess = over.reduce((sum, r) => sum + r - line, 0)
  return { keys: over.length, share: of.total > 0 ? Math.min(1, excess / of.total) : 0 }
}

const seconds: Record<string, number> = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86_400, day: 86_400, week: 604_800, month: 2_592_000 }

/** The seconds of a period such as 1m, 1h30m or day; 0: it is none. */
function periodSeconds(text: string): number {
  let sum = seconds[text] ?? 0
  const rest = text.replace(/(\d+)(ms|s|m|h|d)/g, (_, n, unit) => ((sum += Number(n) * seconds[unit]!), ""))
  return rest && sum !== seconds[text] ? 0 : sum
}

function stored(rule: string): Sample | null {
  try {
    return JSON.parse(localStorage.getItem("weir-calm-" + rule) ?? "null")
  } catch {
    return null
  }
}

export function Find({ rule }: { rule: string }) {
  const names = (status.value?.rules ?? []).map((u) => u.rule)
  const chosen = rule || names[0] || ""
  useEffect(() => watch({ top: "key", limit: 512 }), [])
  const go = (e: { currentTarget: { value: string } }) => (location.hash = "#/find/" + encodeURIComponent(e.currentTarget.value))
  const options = names.map((n) => (
    <option key={n} value={n}>
      {n}
    </option>
  ))
  return (
    <>
      <h1>Find a limit</h1>
      <p class="field">
        <label for="of-rule">Rule</label>
        {names.length > drawn ? (
          <>
            <input id="of-rule" list="rules" defaultValue={chosen} onChange={go} />
            <datalist id="rules">{options}</datalist>
          </>
        ) : (
          <select id="of-rule" value={chosen} onChange={go}>
            {options}
          </select>
        )}
      </p>
      {chosen ? <OfRule key={chosen} rule={chosen} /> : <p class="empty">There are no rules.</p>}
    </>
  )
}

function OfRule({ rule }: { rule: string }) {
  const rules = useAnswer<Rules>("rules")
  const now = sampleOf(rule)
  const [calm, setCalm] = useState(() => stored(rule))
  const document = rules.value?.document ?? "" // may be of megabytes, and this is drawn each second
  const [count, stated = ""] = useMemo(() => limitOf(document, written(rule))?.split("/") ?? [], [document, rule])
  const period = periodSeconds(stated) ? stated : "1m"
  const [line, setLine] = useState<number | null>(null)
  const [trying, tryIt] = useState(false)
  const most = Math.max(1, ...now.rates, ...(calm?.rates ?? [])) * 1.2
  const wanted = (line ?? (period === stated ? Number(count) / periodSeconds(period) : most / 2)) * periodSeconds(period)
  const units = Math.max(1, Math.round(wanted)) // a limit has whole ones
  const at = units / periodSeconds(period)
  const text = units + "/" + period
  if (sheds(document, written(rule))) return <p class="empty">This rule sheds load, and has no limit.</p>
  const keep = () => {
    localStorage.setItem("weir-calm-" + rule, JSON.stringify(now))
    setCalm(now)
  }
  return (
    <>
      <Card
        title="Keys by their rates"
        actions={
          <button type="button" class="quiet" onClick={keep} disabled={now.rates.length === 0}>
            Remember this as a calm time
          </button>
        }
      >
        <Curves now={now} calm={calm} most={most} line={Math.min(at, most)} set={setLine} />
        <p class="field">
          <label for="line">The line</label>
          <input id="line" type="range" min={0} max={1000} value={toSlider(at, most)} onInput={(e) => setLine(fromSlider(Number(e.currentTarget.value), most))} aria-valuetext={text} />
          <output for="line">{text}</output>
        </p>
        <dl class="totals">
          <Stopped name="now" of={now} line={at} />
          {calm && <Stopped name={"calm, " + time(new Date(calm.at))} of={calm} line={at} />}
        </dl>
        <p class="muted">
          Rates are of requests in the last seconds, of the 512 busiest keys of all rules. First look at a calm time, then at an attack. For a log: <code>weir rules suggest</code>.
        </p>
        <p class="buttons">
          <button type="button" onClick={() => tryIt(true)}>
            Try {text} on live traffic
          </button>
        </p>
      </Card>
      {trying && <AmendDialog kind="candidate" rule={written(rule)} limit={text} close={() => tryIt(false)} />}
    </>
  )
}

function sampleOf(rule: string): Sample {
  const rates = (top.value?.keys ?? [])
    .filter((k) => k.rule === rule)
    .map(certain)
    .sort((a, b) => b - a)
  const u = uses.value.get(rule)
  const listed = rates.reduce((sum, r) => sum + r, 0)
  return { at: new Date().toISOString(), rates, total: Math.max(listed, u ? u.admitted_per_second + u.denied_per_second : 0) }
}

function Stopped({ name, of, line }: { name: string; of: Sample; line: number }) {
  const s = stopped(of, line)
  return (
    <div>
      <dt>
        <Text of={name} />
      </dt>
      <dd>
        stops <span class="num">{percent(s.share)}</span> of the traffic, of <span class="num">{s.keys}</span> of {of.rates.length} keys
      </dd>
    </div>
  )
}

// The slider and the chart are by the square root, so that small rates have room, too.
const toSlider = (v: number, most: number) => Math.round(1000 * Math.sqrt(Math.min(v, most) / most))
const fromSlider = (v: number, most: number) => (v / 1000) ** 2 * most

const width = 600
const height = 240

/** The rates of both samples by rank, and the line, which a pointer can drag; the slider does the same for keys. */
function Curves(p: { now: Sample; calm: Sample | null; most: number; line: number; set: (line: number) => void }) {
  const y = (rate: number) => height - (toSlider(rate, p.most) / 1000) * height
  const ranks = Math.max(2, p.now.rates.length, p.calm?.rates.length ?? 0)
  const path = (s: Sample) => s.rates.map((r, i) => `${i ? "L" : "M"}${((i / (ranks - 1)) * width).toFixed(1)} ${y(r).toFixed(1)}`).join("")
  const drag = (e: PointerEvent) => {
    if (e.type === "pointermove" && e.buttons === 0) return
    const box = (e.currentTarget as SVGElement).getBoundingClientRect()
    p.set(fromSlider(Math.max(1, 1000 * (1 - (e.clientY - box.top) / box.height)), p.most))
  }
  return (
    <figure>
      <svg viewBox={`0 0 ${width} ${height}`} class="curves" role="img" aria-label="Rates of keys, the busiest first, and the line" onPointerDown={drag} onPointerMove={drag}>
        {[0.25, 0.5, 0.75, 1].map((part) => (
          <g key={part}>
            <path class="grid" d={`M0 ${height * (1 - part)}H${width}`} />
            <text x="4" y={height * (1 - part) + 12}>
              {number(fromSlider(part * 1000, p.most))}/s
            </text>
          </g>
        ))}
        {p.calm && <path class="calm" d={path(p.calm)} />}
        <path class="now" d={path(p.now)} />
        <path class="line" d={`M0 ${y(p.line)}H${width}`} />
      </svg>
      <figcaption>
        <span class="now">now</span> {p.calm && <span class="calm">calm</span>} <span class="line">the line</span>, keys from the busiest on the left
      </figcaption>
    </figure>
  )
}
