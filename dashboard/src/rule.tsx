// One rule: its text, what it does now, its keys, a test request, its overrides and candidates, and its history. One that sheds
// load has no limit, and so none of what is about keys and limits.

import { useEffect, useState } from "preact/hooks"
import { AmendDialog, Entries } from "./amend"
import { Rates } from "./chart"
import { limitOf, ruleText, sheds } from "./document"
import { Explain } from "./explain"
import { certain, visible, written } from "./format"
import { History } from "./history"
import { KeyDialog } from "./keys"
import { decisions, inForce, top, uses, watch } from "./live"
import { note } from "./overview"
import type { Entry, Page, Rate, Rules, Use } from "./types"
import { Failure, useAnswer } from "./forms"
import { Card, drawn, Link, Meter, Num, Table, Text, Time } from "./widgets"

export function RulePage({ rule }: { rule: string }) {
  const known = [...uses.value.keys()].some((name) => name === rule || written(name) === rule)
  useEffect(() => watch({ top: "key", limit: 512, tap: known, rule }), [rule, known])
  const rules = useAnswer<Rules>("rules")
  const overrides = useAnswer<Page<Entry>>("overrides")
  const candidates = useAnswer<Page<Entry>>("candidates")
  const reload = () => [rules, overrides, candidates].forEach((a) => a.reload())
  useEffect(reload, [inForce.value?.version])
  const [dialog, open] = useState<{ kind: "override" | "candidate"; counted?: string } | null>(null)
  const [looked, look] = useState<string | null>(null)
  const name = written(rule)
  const own = ruleText(rules.value?.document ?? "", name)
  const of = (list: Page<Entry> | null) => (list?.items ?? []).filter((e) => e.rule === name)
  const limit = limitOf(rules.value?.document ?? "", name)
  const shed = sheds(rules.value?.document ?? "", name)
  return (
    <>
      <h1>
        Rule <Text of={rule} />
      </h1>
      <Card
        title="Now"
        actions={
          !shed && (
            <span class="buttons">
              <Link to={"find/" + encodeURIComponent(rule)}>Find a limit</Link>
              <button type="button" class="quiet" onClick={() => open({ kind: "candidate" })}>
                Try a limit
              </button>
            </span>
          )
        }
      >
        <Now rule={rule} shed={shed} />
        <Rates rule={rule} label={"Decisions of the rule " + visible(rule) + " a second over the last ten minutes, admitted and denied"} />
      </Card>
      {!shed && (
        <div class="two">
          <Card title="Keys that come most">
            <Keys rule={rule} limit={(counted) => open({ kind: "override", counted })} look={look} />
          </Card>
          <Card title="Decisions">
            <Decisions />
          </Card>
        </div>
      )}
      <Card title="Shadow and candidates">
        <Tried name={name} />
      </Card>
      {!shed && (
        <Card title="Overrides and candidates">
          <Failure of={overrides.error ?? candidates.error} />
          <Entries all={[...of(overrides.value), ...of(candidates.value)]} changed={reload} />
        </Card>
      )}
      <Card title="Test a request">
        <Explain rule={name} />
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

function Now({ rule, shed }: { rule: string; shed: boolean }) {
  const u = uses.value.get(rule)
  if (!u) return <p class="empty">No rule of this name is in force.</p>
  return (
    <>
      <dl class="totals">
        {figures(u)
          .filter(([name]) => !shed || !/limit|key/.test(name))
          .map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
      </dl>
      {u.hint && <p class="bad">It {note(u)}.</p>}
      {shed && <p class="muted">It sheds load at each PoP alone, and has no limit. Its utilisation and ratio are in the PoPs' metrics.</p>}
    </>
  )
}

function figures(u: Use) {
  return [
    ["used of the limit", <Meter of={u.used} />],
    ["admitted", <Num of={u.admitted_per_second} unit="/s" />],
    ["denied", <Num of={u.denied_per_second} unit="/s" />],
    ["matched", <Num of={u.matched} />],
    ["denied in all", <Num of={u.denied} />],
    ["without a key", <Num of={u.no_key} />],
  ] as const
}

function Keys({ rule, limit, look }: { rule: string; limit: (counted: string) => void; look: (counted: string) => void }) {
  const keys = (top.value?.keys ?? []).filter((k) => k.rule === rule).slice(0, 20)
  return (
    <Table
      caption="Keys that come most"
      rows={keys}
      id={(k: Rate) => k.key + (k.override ?? "")}
      empty="No key has come in the last seconds."
      columns={[
        { name: "key", of: (k) => <Text of={k.key || "all requests"} /> },
        { name: "rate", right: true, of: (k) => <Num of={certain(k)} unit="/s" /> },
        { name: "override", of: (k) => <Text of={k.override ?? ""} /> },
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
      rows={decisions.value.slice(0, 20)}
      id={(d) => d.when + d.key + d.from + d.remaining}
      empty="No decision has been seen yet."
      columns={[
        { name: "when", of: (d) => <Time at={d.when} /> },
        { name: "outcome", of: (d) => <span class={d.outcome === "admitted" ? "good" : "bad"}>{d.outcome}</span> },
        { name: "key", of: (d) => <Text of={d.key} most={60} /> },
        { name: "at", of: (d) => <Text of={d.from} /> },
        { name: "remaining", right: true, of: (d) => <Num of={d.remaining} /> },
      ]}
    />
  )
}

/** What the rule's shadow and its candidates would have rejected. */
function Tried({ name }: { name: string }) {
  const all = [...uses.value.values()].filter((u) => written(u.rule) === name && (u.shadow_denied > 0 || /@(shadow|candidate)$/.test(u.rule)))
  return (
    <Table
      caption="Shadow and candidates"
      rows={all}
      id={(u) => u.rule}
      empty="Nothing of this rule is on trial, or nothing would have been denied."
      columns={[
        { name: "counted as", of: (u) => <Text of={u.rule} /> },
        { name: "matched", right: true, of: (u) => <Num of={u.matched} /> },
        { name: "would deny", right: true, of: (u) => <Num of={u.shadow_denied} /> },
        { name: "used of the limit", of: (u) => <Meter of={u.used} /> },
      ]}
    />
  )
}
