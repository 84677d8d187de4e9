// The editor's page: it loads the editor itself only here.

import { useEffect, useRef, useState } from "preact/hooks"
import { signal } from "@preact/signals"
import type { Editor } from "./code"
import { get, getTagged, Problem } from "./api"
import { AmendDialog } from "./amend"
import { DiffView } from "./diff"
import { limitOf, ruleText, sheds, withMode } from "./document"
import { revisionText, visible } from "./format"
import { History } from "./history"
import { able, uses, watch } from "./live"
import type { Applied, Diff, Finding, Rules, Tested, Validated, Version } from "./types"
import { Dialog, Failure, Field, useAction } from "./forms"
import { Card, drawn, said, Table, Text } from "./widgets"

/** What is typed and not applied: it stays while one looks at other pages. */
const draft = signal<{ text: string; begun: string; etag: string; source: string } | null>(null)

export function EditPage({ from }: { from: string }) {
  const [loaded, count] = useState(0)
  useEffect(() => watch({}), [])
  const { error, run } = useAction()
  const load = (discard: boolean) =>
    run(async () => {
      const { value, etag } = await getTagged<Rules>("rules")
      const own = draft.value
      if (own && !discard && value.document === own.begun) draft.value = { ...own, etag }
      else if (!own || discard || own.text === own.begun) {
        draft.value = { text: value.document, begun: value.document, etag, source: value.source }
        count((n) => n + 1)
      }
    })
  useEffect(() => {
    if (able.value) void load(false)
  }, [able.value])
  return (
    <>
      <h1>Rules</h1>
      <Failure of={error} />
      {draft.value && <Edit key={loaded} from={from} again={() => load(true)} />}
      <History changed={() => void load(false)} />
    </>
  )
}

function Edit({ from, again }: { from: string; again: () => void }) {
  const at = useRef<HTMLDivElement>(null)
  const editor = useRef<Editor | null>(null)
  const checking = useRef<AbortController | null>(null)
  const [found, setFound] = useState<{ text: string; findings: Finding[] } | null>(null)
  const [unread, setUnread] = useState<unknown>(null) // why a text could not be checked
  const [other, setOther] = useState<{ version: Version; document: string; etag: string } | null>(null)
  const { value: d } = draft
  useEffect(() => {
    let gone = false
    void import("./code").then(({ edit }) => {
      if (gone || !at.current) return
      const own = (editor.current = edit(at.current, draft.value!.text, (text) => (draft.value = { ...draft.value!, text }), check))
      const rule = from && ruleText(draft.value!.text, from)
      if (rule) own.show(rule.line)
    })
    return () => {
      gone = true
      editor.current?.end()
    }
  }, [])
  const check = async (text: string) => {
    checking.current?.abort()
    const { signal } = (checking.current = new AbortController())
    try {
      const { findings } = await get<Validated>("rules:validate", { body: { document: text }, signal })
      setUnread(null)
      setFound({ text, findings })
      return findings.map((f) => ({ ...f, reason: visible(f.reason, 500) }))
    } catch (err) {
      if (!signal.aborted) setUnread(err)
      return []
    }
  }
  const put = (text: string) => {
    draft.value = { ...draft.value!, text } // the editor may be on its way
    editor.current?.replace(text)
  }
  const checked = found?.text === d!.text
  useEffect(() => {
    if (!checked && able.value) void check(d!.text) // as the editor's own one failed meanwhile
  }, [able.value])
  return (
    <>
      {d!.source === "file" && (
        <p class="failure">These rules come from a file. Change the file; here you can only compare and test.</p>
      )}
      {d!.text !== d!.begun && (
        <p class="muted">
          You have changed the document.{" "}
          <button type="button" class="quiet" onClick={again}>
            Discard my changes
          </button>
        </p>
      )}
      <div class="edit">
        <div ref={at} class="editor" />
        <Failure of={unread} />
        <Findings of={found?.findings ?? []} checked={checked} show={(line) => editor.current?.show(line)} />
      </div>
      <Modes name={from} put={put} />
      <Steps lost={setOther} mistakes={checked && found.findings.some((f) => !f.warning)} />
      {other && <Lost of={other} close={() => setOther(null)} />}
    </>
  )
}

function Findings({ of, checked, show }: { of: Finding[]; checked: boolean; show: (line: number) => void }) {
  return (
    <div role="region" aria-label="Mistakes and warnings" class="findings">
      {!checked ? <p class="empty">Not checked yet…</p> : !of.some((f) => !f.warning) && <p class="well">No mistakes.</p>}
      {of.length > 0 && (
        <ul>
          {of.slice(0, drawn).map((f, i) => (
            <li key={i} class={f.warning ? "warning" : "bad"}>
              <button type="button" class="quiet" onClick={() => show(f.line)}>
                line {f.line}
              </button>{" "}
              <Text of={f.path + ": " + f.reason} most={400} />
            </li>
          ))}
          {of.length > drawn && <li>and {of.length - drawn} more</li>}
        </ul>
      )}
    </div>
  )
}

/** The modes of the rule that one came for: on trial or in force. */
function Modes({ name, put }: { name: string; put: (text: string) => void }) {
  const [trying, tryIt] = useState(false)
  if (!name || !uses.value.has(name)) return null
  const set = (mode: string) => {
    const text = withMode(draft.value!.text, name, mode)
    if (text) put(text)
    else said.value = "The rule already has this mode, or the page cannot find the mode in its text. Change it in the editor."
  }
  return (
    <div class="buttons">
      <button type="button" class="quiet" onClick={() => set("shadow")}>
        Put {name} on trial (shadow)
      </button>
      <button type="button" class="quiet" onClick={() => set("enforce")}>
        Enforce {name}
      </button>
      {!sheds(draft.value!.text, name) && (
        <button type="button" class="quiet" onClick={() => tryIt(true)}>
          Try the limit of {name} as a candidate
        </button>
      )}
      {trying && <AmendDialog kind="candidate" rule={name} limit={limitOf(draft.value!.text, name)} close={() => tryIt(false)} />}
    </div>
  )
}

/** Compare, test and apply what is typed. */
function Steps({ lost, mistakes }: { lost: (other: { version: Version; document: string; etag: string }) => void; mistakes: boolean }) {
  const [diff, setDiff] = useState<{ of: string; result: Diff } | null>(null)
  const [tests, setTests] = useState<{ of: string; result: Tested[] } | null>(null)
  const [why, setWhy] = useState("")
  const { busy, error, run } = useAction()
  const d = draft.value!
  const of = d.text
  const compare = () => run(async () => setDiff({ of: draft.value!.text, result: await get<Diff>("rules:diff", { body: { document: draft.value!.text } }) }))
  const test = () => run(async () => setTests({ of: draft.value!.text, result: (await get<{ items: Tested[] }>("rules:test", { body: { document: draft.value!.text } })).items }))
  const put = (text: string, match: string) => get<Applied>("rules", { method: "PUT", body: { document: text, why }, match })
  const apply = () =>
    run(async () => {
      const { text, begun, etag, source } = draft.value!
      let made: Applied
      try {
        made = await put(text, etag)
      } catch (err) {
        if (!(err instanceof Problem) || err.code !== "rules-changed") throw err
        const newest = await getTagged<Rules>("rules")
        if (newest.value.document !== begun) return lost({ version: newest.value.version!, document: newest.value.document, etag: newest.etag })
        made = await put(text, newest.etag) // only overrides or candidates have changed
      }
      draft.value = { text: draft.value!.text, begun: text, etag: `"${made.version.revision}"`, source }
      said.value = `Revision ${revisionText(made.version.revision)} is the newest one.`
      setWhy("")
    })
  return (
    <Card title="Try and apply">
      <p class="buttons">
        <button type="button" class="quiet" disabled={busy || mistakes} onClick={() => void compare()}>
          Show changed requests
        </button>
        <button type="button" class="quiet" disabled={busy || mistakes} onClick={() => void test()}>
          Run the tests
        </button>
      </p>
      {diff?.of === of && <DiffView of={diff.result} />}
      {tests?.of === of && <Tests of={tests.result} />}
      <form
        class="row"
        onSubmit={(e) => {
          e.preventDefault()
          void apply()
        }}
      >
        <Field label="Reason" value={why} set={setWhy} required maxLength={2000} size={40} />
        <button type="submit" disabled={busy || mistakes || d.source === "file" || d.source === "none"}>
          Apply
        </button>
      </form>
      <Failure of={error} />
    </Card>
  )
}

function Tests({ of }: { of: Tested[] }) {
  const failed = of.filter((t) => t.failure || t.problem)
  return (
    <>
      <p role="status" class={failed.length ? "bad" : "well"}>
        {of.length === 0 ? "The document has no tests." : `${of.length - failed.length} of ${of.length} tests passed.`}
      </p>
      <Table
        caption="Tests that failed"
        rows={failed}
        id={(t) => t.name}
        empty=""
        columns={[
          { name: "test", of: (t) => <Text of={t.name} /> },
          { name: "line", right: true, of: (t) => t.failure?.line ?? t.line },
          { name: "expected", of: (t) => (t.failure?.expected ?? []).map((x) => <div>- {<Text of={x} />}</div>) },
          { name: "was", of: (t) => (t.failure ? t.failure.got.map((x) => <div>+ {<Text of={x} />}</div>) : <Text of={t.problem!} />) },
        ]}
      />
    </>
  )
}

/** Somebody else was faster: what was typed stays, and both are shown. */
function Lost({ of, close }: { of: { version: Version; document: string; etag: string }; close: () => void }) {
  const at = useRef<HTMLDivElement>(null)
  useEffect(() => {
    let end = () => undefined as void
    void import("./code").then(({ compare }) => at.current && (end = compare(at.current, of.document, draft.value!.text)))
    return () => end()
  }, [])
  const goOn = () => {
    draft.value = { ...draft.value!, begun: of.document, etag: of.etag }
    said.value = "Apply again to replace their version."
    close()
  }
  return (
    <Dialog title="Somebody else has changed the rules" close={close}>
      <p>
        <Text of={of.version.who} /> applied revision {revisionText(of.version.revision)}: <Text of={of.version.why} />. Your text is not
        applied and is still in the editor. Their version is on the left, yours on the right.
      </p>
      <div ref={at} class="editor" />
      <p class="buttons">
        <button type="button" onClick={close}>
          Back to the editor
        </button>
        <button type="button" class="quiet" onClick={goOn}>
          Replace theirs with mine
        </button>
      </p>
    </Dialog>
  )
}
