// Find a limit: the keys of a rule by their rates, and the part of their requests that a limit would reject.

import { useEffect, useMemo, useState } from "preact/hooks"
import { AmendDialog } from "./amend"
import { limitOf, sheds } from "./document"
import { certain, number, percent, time, written } from "./format"
import { status, top, uses, watch } from "./live"
import { forgetful } from "./past"
import { query } from "./api"
import type { History, HistoryKeys, Rules } from "./types"
import { Failure, useAnswer } from "./forms"
import { Card, drawn } from "./widgets"

/** The rates of a rule's keys in some time, in requests a second, the largest first. */
interface Sample {
  at: string
  rates: number[]
  total: number // of all keys together, those that are in no list too
}

type Source = "now" | "1h" | "24h"

const sources: Record<Source, string> = { now: "last seconds", "1h": "last hour", "24h": "last 24 hours" }

/** What a limit of so many requests a second would reject of a sample, if its keys sent the same requests. */
function rejected(of: Sample, limit: number): { keys: number; share: number } {
  const over = of.rates.filter((r) => r > limit)
  const excess = over.reduce((sum, r) => sum + r - limit, 0)
  return { keys: over.length, share: of.total > 0 ? Math.min(1, excess / of.total) : 0 }
}

const seconds: Record<string, number> = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86_400, day: 86_400, week: 604_800, month: 2_592_000 }

/** The seconds of a period such as 1m, 1h30m or day; 0: it is none. */
function periodSeconds(text: string): number {
  let sum = seconds[text] ?? 0
  const rest = text.replace(/(\d+)(ms|s|m|h|d)/g, (_, n, unit) => ((sum += Number(n) * seconds[unit]!), ""))
  return rest && sum !== seconds[text] ? 0 : sum
}

/** A period after "per". */
const perWords: Record<string, string> = { "1s": "second", "1m": "minute", "1h": "hour", "1d": "day" }

const baselineOf = (rule: string) => "weir-baseline-" + rule

function stored(rule: string): Sample | null {
  try {
    return JSON.parse(localStorage.getItem(baselineOf(rule)) ?? "null")
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
      {chosen ? <OfRule key={chosen} rule={chosen} /> : <p class="empty">{status.value ? "There are no rules." : "Waiting for the first report…"}</p>}
    </>
  )
}

function OfRule({ rule }: { rule: string }) {
  const rules = useAnswer<Rules>("rules")
  const [wish, setSource] = useState<Source | null>(null)
  const past = usePastSample(rule, wish === "24h" ? "24h" : "1h")
  const source = forgetful.value ? "now" : (wish ?? (past.sample?.rates.length === 0 ? "now" : "1h"))
  const sample = source === "now" ? sampleOfNow(rule) : past.sample
  const [baseline, setBaseline] = useState(() => stored(rule))
  const document = rules.value?.document ?? "" // may be of megabytes, and this is drawn each second
  const [count, stated = ""] = useMemo(() => limitOf(document, written(rule))?.split("/") ?? [], [document, rule])
  const period = periodSeconds(stated) ? stated : "1m"
  const per = periodSeconds(period)
  const [line, setLine] = useState<number | null>(null) // requests per period
  const [trying, tryIt] = useState(false)
  if (sheds(document, written(rule))) return <p class="empty">This rule sheds load. It has no limit.</p>
  const scale = scaleOf([...(sample?.rates ?? []), ...(baseline?.rates ?? [])].map((r) => r * per))
  const units = Math.max(1, Math.round(line ?? (period === stated ? Number(count) : Math.sqrt(scale.least * scale.most)))) // a limit has whole ones
  const words = `${units} per ${perWords[period] ?? period}`
  const keep = () => {
    localStorage.setItem(baselineOf(rule), JSON.stringify(sample))
    setBaseline(sample)
  }
  const shown = sample && sample.rates.length > 0
  return (
    <>
      <Card
        title="Keys by rate"
        actions={
          <span class="buttons">
            <Sources of={source} set={setSource} />
            <button type="button" class="quiet" onClick={keep} disabled={!shown}>
              Save as baseline
            </button>
          </span>
        }
      >
        <Failure of={source === "now" ? null : past.error} />
        {!sample && <p class="empty">Reading the keys…</p>}
        {sample && !shown && (
          <p class="empty">
            No key of this rule sent a request in the {sources[source]}, so there is nothing to compare a limit with. Send requests that match the rule, or choose another
            time.
          </p>
        )}
        {shown && (
          <>
            <Curves sample={sample} name={sources[source]} baseline={baseline} scale={scale} per={per} unit={perWords[period] ?? period} line={units} set={setLine} />
            <p class="field slider">
              <label for="line">Limit</label>
              <input
                id="line"
                type="range"
                min={0}
                max={1000}
                value={Math.round(1000 * scale.part(units))}
                onInput={(e) => setLine(scale.value(Number(e.currentTarget.value) / 1000))}
                aria-valuetext={words}
                aria-describedby="rejects"
              />
            </p>
            <p class="answer" id="rejects">
              <Rejects words={words} of={sample} limit={units / per} />
              {baseline && (
                <>
                  {" "}
                  In the baseline of {time(new Date(baseline.at))}: <Rejects words={words} of={baseline} limit={units / per} />
                </>
              )}
            </p>
            <p class="muted">
              {source === "now"
                ? "Rates of the last seconds, of the 512 busiest keys of all rules. "
                : `Average rates while the rule had requests, estimated, of at most ${mostKeys} keys. A limit also rejects bursts that an average hides. `}
              Save a normal time as the baseline and compare an attack with it. For an access log, use <code>weir rules suggest</code>.
            </p>
            <p class="buttons">
              <button type="button" onClick={() => tryIt(true)}>
                Try {words} on live traffic
              </button>
            </p>
          </>
        )}
      </Card>
      {trying && <AmendDialog kind="candidate" rule={written(rule)} limit={units + "/" + period} close={() => tryIt(false)} />}
    </>
  )
}

function Sources({ of, set }: { of: Source; set: (source: Source) => void }) {
  if (forgetful.value) return <small>Of the last seconds: no history is kept here.</small>
  return (
    <span class="buttons" role="group" aria-label="Time of the requests">
      {(Object.keys(sources) as Source[]).map((s) => (
        <button key={s} type="button" class="quiet" aria-pressed={s === of} onClick={() => set(s)}>
          {sources[s]}
        </button>
      ))}
    </span>
  )
}

/** The sentence about a limit, of so many requests a second. */
function Rejects({ words, of, limit }: { words: string; of: Sample; limit: number }) {
  const r = rejected(of, limit)
  if (r.keys === 0) return <>{words} would reject no request: no key has this rate.</>
  return (
    <>
      {words} would reject <strong class="num">{percent(r.share)}</strong> of requests from {r.keys} of {of.rates.length} {of.rates.length === 1 ? "key" : "keys"}.
    </>
  )
}

function sampleOfNow(rule: string): Sample | null {
  if (!top.value) return null
  const rates = top.value.keys
    .filter((k) => k.rule === rule)
    .map(certain)
    .sort((a, b) => b - a)
  const u = uses.value.get(rule)
  const listed = rates.reduce((sum, r) => sum + r, 0)
  return { at: new Date().toISOString(), rates, total: Math.max(listed, u ? u.admitted_per_second + u.denied_per_second : 0) }
}

const mostKeys = 256

/** The keys of the history: the part that each had of the rule's requests, at the rate that the rule had while it had requests. */
function usePastSample(rule: string, span: "1h" | "24h"): { sample: Sample | null; error: unknown } {
  const off = !status.value || forgetful.value
  const keys = useAnswer<HistoryKeys>(off ? null : query("history/keys", { span, by: "key", limit: mostKeys, rule }))
  const steps = useAnswer<History>(off ? null : query("history", { span }))
  const day = useAnswer<History>(off ? null : query("history", { span: "24h" }))
  useEffect(() => {
    const timer = setInterval(() => [keys, steps, day].forEach((a) => a.reload()), 60_000)
    return () => clearInterval(timer)
  }, [rule, span])
  const sample = useMemo(() => (keys.value && steps.value && day.value ? pastSample(rule, keys.value, steps.value, day.value) : null), [keys.value, steps.value, day.value])
  return { sample, error: keys.error ?? steps.error ?? day.error }
}

const sum = (list: number[]) => list.reduce((n, one) => n + one, 0)

/** The requests of a rule in each step, from a time on. */
function requestsOf(rule: string, h: History, from: number): number[] {
  const r = h.rules.find((one) => one.rule === rule)
  return h.known.map((_, i) => (r && Date.parse(h.from) + (i + 1) * h.step_ms > from ? r.admitted[i]! + r.denied[i]! + r.shadow_denied[i]! : 0))
}

function pastSample(rule: string, k: HistoryKeys, steps: History, day: History): Sample {
  const listed = k.keys.filter((one) => one.rule === rule && one.requests > 0).map((one) => one.requests)
  const all = Math.max(sum(listed), sum(requestsOf(rule, day, Date.parse(k.from)))) // keys are kept by the hour, so from begins before the steps
  const counted = requestsOf(rule, steps, 0)
  const total = sum(counted) / Math.max(1, counted.filter((n) => n > 0).length) / (steps.step_ms / 1000)
  return { at: new Date().toISOString(), rates: listed.map((n) => (n / all) * total).sort((a, b) => b - a), total }
}

/** A logarithmic scale: part is where a value is on it, from 0 to 1, and value is what is there. */
interface Scale {
  least: number
  most: number
  part: (value: number) => number
  value: (part: number) => number
}

/** The scale from a decade below the smallest value, at least 1, to above the largest one. */
function scaleOf(values: number[]): Scale {
  const some = values.filter((v) => v > 0)
  const most = Math.max(10, ...some.map((v) => v * 1.5))
  const least = Math.max(1, most / 1e6, 10 ** Math.floor(Math.log10(Math.min(most, ...some))) / 10)
  const range = Math.log(most / least)
  return { least, most, part: (v) => Math.min(1, Math.max(0, Math.log(v / least) / range)), value: (part) => least * Math.exp(part * range) }
}

/** Where an axis has its lines: 1, 10, 100; and 2 and 5 of each if there are few. */
function ticksOf(s: Scale): number[] {
  const few = s.most / s.least < 200
  const all: number[] = []
  for (let d = 10 ** Math.ceil(Math.log10(s.least) - 1); d <= s.most; d *= 10) all.push(...(few ? [d, 2 * d, 5 * d] : [d]))
  return all.filter((v) => v >= s.least && v <= s.most)
}

const height = 260
const left = 64
const below = 44

interface Shown {
  sample: Sample
  name: string
  baseline: Sample | null
  scale: Scale
  per: number
  unit: string
  line: number
  set: (line: number) => void
}

/** The rates of both samples by rank, and the limit, which a pointer can drag; the slider does the same for the keyboard. */
function Curves(p: Shown) {
  const width = Math.min(860, globalThis.document.documentElement.clientWidth - 64)
  const y = (units: number) => (height - below) * (1 - p.scale.part(units)) + 8
  const ranks = Math.max(p.sample.rates.length, p.baseline?.rates.length ?? 0)
  const x = (rank: number) => left + (ranks < 2 ? 0.5 : rank / (ranks - 1)) * (width - left - 12)
  const path = (s: Sample) => s.rates.map((r, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(r * p.per).toFixed(1)}`).join("")
  const drag = (e: PointerEvent) => {
    if (e.type === "pointermove" && e.buttons === 0) return
    const box = (e.currentTarget as SVGElement).getBoundingClientRect()
    const at = ((e.clientY - box.top) / box.height) * height
    p.set(p.scale.value(Math.min(1, Math.max(0, 1 - (at - 8) / (height - below)))))
  }
  return (
    <figure>
      <svg
        viewBox={`0 0 ${width} ${height}`}
        class="curves"
        role="img"
        aria-label={`Requests per ${p.unit} of each key on a logarithmic scale, the busiest key first, and the limit`}
        onPointerDown={drag}
        onPointerMove={drag}
      >
        {ticksOf(p.scale).map((v) => (
          <g key={v}>
            <path class="grid" d={`M${left} ${y(v)}H${width}`} />
            <text x={left - 6} y={y(v) + 4} text-anchor="end">
              {number(v)}
            </text>
          </g>
        ))}
        <text transform={`translate(14 ${height / 2}) rotate(-90)`} text-anchor="middle">
          requests per {p.unit} (log scale)
        </text>
        <text x={x(0)} y={height - below + 26} text-anchor="middle">
          1
        </text>
        {ranks > 1 && (
          <text x={x(ranks - 1)} y={height - below + 26} text-anchor="end">
            {ranks}
          </text>
        )}
        <text x={(width + left) / 2} y={height - 4} text-anchor="middle">
          keys, the busiest first
        </text>
        {p.baseline && <path class="baseline" d={path(p.baseline)} />}
        <path class="now" d={path(p.sample)} />
        {ranks <= 60 && p.sample.rates.map((r, i) => <circle key={i} class="now" cx={x(i)} cy={y(r * p.per)} r="3.5" />)}
        <path class="line" d={`M${left} ${y(p.line)}H${width}`} />
      </svg>
      <figcaption>
        <span class="now">{p.name}</span> {p.baseline && <span class="baseline">baseline</span>} <span class="line">limit</span>
      </figcaption>
    </figure>
  )
}
