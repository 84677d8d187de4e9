// One rule: what it does in words, what it decided, its keys, what its trials would reject, a test request, its overrides and
// candidates, its text, and its history. A rule that sheds load has no limit, and so none of what is about keys and limits.

import type { ComponentChildren } from "preact"
import { useEffect, useState } from "preact/hooks"
import { AmendDialog, Entries } from "./amend"
import { Rates, Spans } from "./chart"
import { limitOf, ruleText } from "./document"
import { Explain } from "./explain"
import { certain, number, percent, visible, written } from "./format"
import { History } from "./history"
import { KeyDialog } from "./keys"
import { decisions, inForce, status, top, uses, watch } from "./live"
import { note } from "./overview"
import { forgetful, past, reach, span, sumsByRule, sumsOf, useKeys, usePast } from "./past"
import type { Counts, Entry, KeyHistory, Page, Rate, RuleInForce, Rules, Use } from "./types"
import { Failure, useAnswer } from "./forms"
import { Card, drawn, Link, Meter, Num, Table, Text, Time } from "./widgets"

/** Rows of a list of keys or decisions: the page shall be short on a phone, too. */
const rows = 10

export function RulePage({ rule }: { rule: string }) {
  const known = [...uses.value.keys()].some((one) => one === rule || written(one) === rule)
  useEffect(() => watch({ top: "key", limit: 512, tap: known, rule }), [rule, known])
  usePast()
  const about = useAnswer<{ items: RuleInForce[] }>(known ? "rules/in-force/" + encodeURIComponent(rule) : null)
  const rules = useAnswer<Rules>("rules")
  const overrides = useAnswer<Page<Entry>>("overrides")
  const candidates = useAnswer<Page<Entry>>("candidates")
  const reload = () => [about, rules, overrides, candidates].forEach((a) => a.reload())
  useEffect(reload, [inForce.value?.version])
  const [dialog, open] = useState<{ kind: "override" | "candidate"; counted?: string } | null>(null)
  const [looked, look] = useState<string | null>(null)
  const name = written(rule)
  const own = ruleText(rules.value?.document ?? "", name)
  const of = (list: Page<Entry> | null) => (list?.items ?? []).filter((e) => e.rule === name)
  const limit = limitOf(rules.value?.document ?? "", name)
  const items = about.value?.items ?? []
  const shown = items.find((r) => r.rule === rule) ?? items[0]
  const trials = items.filter((r) => r.mode === "shadow" && !r.shed)
  if (status.value && !known) return <NotThere rule={rule} />
  const limited = !!shown && !shown.shed && shown.mode !== "exempt"
  return (
    <>
      <h1>
        Rule <Text of={rule} />
      </h1>
      <Failure of={about.error} />
      {items.map((r) => (
        <p key={r.rule} class="answer">
          {r !== shown && (
            <>
              <Text of={r.rule} />:{" "}
            </>
          )}
          <Text of={r.words.join(" · ")} most={500} />
        </p>
      ))}
      <Card
        title={shown?.mode === "shadow" ? "Would be rejected" : "Decisions over time"}
        actions={
          <span class="buttons">
            <Spans />
            {limited && (
              <>
                <Link to={"find/" + encodeURIComponent(rule)}>Find a limit</Link>
                <button type="button" class="quiet" onClick={() => open({ kind: "candidate" })}>
                  Try a limit
                </button>
              </>
            )}
          </span>
        }
      >
        {shown && <Past of={shown} />}
      </Card>
      {trials.map((r) => (
        <Trial key={r.rule} rule={r.rule} />
      ))}
      {limited && (
        <div class="two">
          <Card title="Keys that come most">
            <Keys rule={rule} limit={(counted) => open({ kind: "override", counted })} look={look} />
          </Card>
          <Card title="Latest decisions">
            <Decisions />
          </Card>
        </div>
      )}
      {limited && (
        <Card title="Overrides and candidates">
          <Failure of={overrides.error ?? candidates.error} />
          <Entries all={[...of(overrides.value), ...of(candidates.value)]} changed={reload} />
        </Card>
      )}
      <Card title="Test a request">
        <Explain key={JSON.stringify(shown?.example)} rule={name} like={shown?.example} />
      </Card>
      <Card title="Text" actions={<Link to={"edit/" + encodeURIComponent(name)}>Edit</Link>}>
        <Failure of={rules.error} />
        {own ? <RuleText of={own.text} /> : <p class="empty">The document does not have it in a form that can be shown alone.</p>}
      </Card>
      <History rule={name} changed={reload} />
      {looked !== null && <KeyDialog rule={rule} counted={looked} close={() => look(null)} />}
      {dialog && <AmendDialog {...dialog} rule={name} limit={limit} close={() => (open(null), reload())} />}
    </>
  )
}

function NotThere({ rule }: { rule: string }) {
  return (
    <>
      <h1>
        There is no rule named <Text of={rule} />.
      </h1>
      <p>No rule of this name is in force. It may have another name, or have been removed.</p>
      <p class="buttons">
        <Link to="">All rules</Link>
        <Link to="edit">History of the rules</Link>
      </p>
    </>
  )
}

function RuleText({ of }: { of: string }) {
  const lines = of.trimEnd().split("\n")
  return (
    <>
      <pre tabIndex={0}>{lines.slice(0, drawn).map((line) => visible(line, Infinity) + "\n")}</pre>
      {lines.length > drawn && (
        <p class="muted">
          The first {drawn} of {lines.length} lines. The editor has all.
        </p>
      )}
    </>
  )
}

/** What the rule decided in the past and decides now. What it did on trial is not what it does enforced: each has its own. */
function Past({ of: r }: { of: RuleInForce }) {
  const u = uses.value.get(r.rule)
  const sums = past.value && (sumsByRule.value.get(r.rule) ?? sumsOf(undefined))
  const trial = r.mode === "shadow"
  return (
    <>
      <dl class="totals">
        {(trial ? tried(sums?.shadow_denied) : enforced(sums, u))
          .concat(r.shed || r.mode === "exempt" ? [] : [["demand", <Meter of={u?.used} />], ["without a key", <Num of={u?.no_key} />]])
          .map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
      </dl>
      {u?.hint && <p class="bad">It {note(u)}.</p>}
      {r.shed && <p class="muted">It sheds load at each PoP alone, and has no limit. Its utilisation and ratio are in the PoPs' metrics.</p>}
      <Rates
        of={(rule) => rule === r.rule}
        trial={trial}
        limit={trial ? undefined : r.per_second}
        label={`Requests a second that the rule ${visible(r.rule)} ${trial ? "would reject" : "admitted and rejected"}, ${reach()}`}
      />
    </>
  )
}

type Figure = [name: string, value: ComponentChildren]

function enforced(sums: Counts<number> | null, u: Use | undefined): Figure[] {
  const all = sums ? sums.admitted + sums.denied : 0
  return [
    ["rejected", <span class="num">{sums && all ? percent(sums.denied / all) : "–"}</span>],
    ["requests", <Num of={sums ? Math.round(all) : undefined} />],
    ["admitted now", <Num of={u?.admitted_per_second} unit="/s" />],
    ["rejected now", <Num of={u?.denied_per_second} unit="/s" />],
    ["fallbacks", <Num of={forgetful.value ? undefined : sums?.fallback} />],
  ]
}

function tried(would: number | undefined): Figure[] {
  return [["would be rejected", <Num of={would === undefined ? undefined : Math.round(would)} />]]
}

/** Whom a trial would have hit. */
function Trial({ rule }: { rule: string }) {
  const hit = useKeys("denied", 20, rule)
  const t = hit?.trials.find((one) => one.rule === rule)
  const keys = (hit?.keys ?? []).filter((k) => k.rule === rule) // those of candidates are there, too
  const u = uses.value.get(rule)
  const over = span.value === "24h" ? "the last 24 hours" : "the last hour"
  const matched = u ? u.matched - u.admitted - u.denied : 0 // while it was on trial
  const share = (part: number, all: number) => (all ? percent(part / all) : "none")
  return (
    <Card title={"Whom the trial " + visible(rule) + " would hit"} id="trial">
      {t ? (
        <p class="answer">
          In {over} it would have rejected <strong>{share(t.shadow_denied, t.requests)}</strong> of {number(t.requests)} requests
          {t.keys > 0 && `, of ${t.error_percent ? "about " : ""}${number(t.keys)} ${t.keys === 1 ? "key" : "keys"}`}
          {t.keys > 0 && t.error_percent > 0 && ` (± ${t.error_percent} %)`}.
        </p>
      ) : forgetful.value ? (
        <p class="answer">
          Since the PoPs started it would have rejected <strong>{share(u?.shadow_denied ?? 0, matched)}</strong> of {number(matched)} requests. No history is kept here, so the keys are not known.
        </p>
      ) : (
        <p class="empty">{hit ? `It would have rejected nothing in ${over}.` : "…"}</p>
      )}
      {keys.length > 0 && (
        <Table
          caption="Keys that would be rejected"
          rows={keys}
          id={(k: KeyHistory) => k.key + (k.override ?? "")}
          empty=""
          columns={[
            { name: "key", of: (k) => <Text of={k.key || "all requests"} /> },
            { name: "would be rejected", right: true, of: (k) => <Num of={k.requests} /> },
          ]}
        />
      )}
    </Card>
  )
}

function Keys({ rule, limit, look }: { rule: string; limit: (counted: string) => void; look: (counted: string) => void }) {
  const list = (top.value?.keys ?? []).filter((k) => k.rule === rule).slice(0, rows)
  return (
    <Table
      caption="Keys that come most"
      rows={list}
      id={(k: Rate) => k.key + (k.override ?? "")}
      empty="No key has come in the last seconds."
      columns={[
        { name: "key", of: (k) => <Text of={k.key || "all requests"} /> },
        { name: "rate", right: true, of: (k) => <Num of={certain(k)} unit="/s" /> },
        ...(list.some((k) => k.override) ? [{ name: "override", of: (k: Rate) => <Text of={k.override ?? ""} /> }] : []),
        {
          name: "action",
          of: (k) => (
            <span class="buttons">
              <button type="button" class="quiet" onClick={() => look(k.key)}>
                Counters
              </button>
              {k.key && (
                <button type="button" class="quiet" onClick={() => limit(k.key)}>
                  Limit this key
                </button>
              )}
            </span>
          ),
        },
      ]}
    />
  )
}

function Decisions() {
  return (
    <Table
      caption="Decisions, the newest first"
      rows={decisions.value.slice(0, rows)}
      id={(d) => d.when + d.key + d.from + d.remaining}
      empty="No decision has been seen yet."
      columns={[
        { name: "when", of: (d) => <Time at={d.when} /> },
        { name: "outcome", of: (d) => <span class={d.outcome === "admitted" ? "good" : "bad"}>{d.outcome.replaceAll("-", " ")}</span> },
        { name: "key", of: (d) => <Text of={d.key} most={60} /> },
        { name: "at", of: (d) => <Text of={d.from} /> },
        { name: "remaining", right: true, of: (d) => <Num of={d.remaining} /> },
      ]}
    />
  )
}
