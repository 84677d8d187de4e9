// The versions of the rules: who changed what and why, and the way back.

import { useEffect, useState } from "preact/hooks"
import { get, getTagged, query } from "./api"
import { DiffView } from "./diff"
import { revisionText } from "./format"
import { inForce } from "./live"
import type { Applied, Diff, Page, Rules, Version } from "./types"
import { Dialog, Failure, Field, useAction, useAnswer } from "./forms"
import { Card, Revision, said, Table, Text, Time } from "./widgets"

/** Whether versions and an audit are kept; null: it is not known yet. */
export function useKept(): boolean | null {
  const { value } = useAnswer<Rules>("rules")
  return value && (value.source === "consul" || value.source === "store")
}

export const fromFile = "The rules come from a file, so no versions and no audit log are kept here. Each program logs its changes."

/** The history of all rules; with a rule the versions that changed it, and a comparison shows what became of it. */
export function History({ rule, changed }: { rule?: string; changed: () => void }) {
  const kept = useKept()
  const [before, setBefore] = useState("")
  const versions = useAnswer<Page<Version>>(kept ? query("rules/versions", { limit: 50, before, rule }) : null)
  const [shown, show] = useState<Version | null>(null)
  const [back, goBack] = useState<Version | null>(null)
  const newest = before || rule ? inForce.value?.revision : versions.value?.items[0]?.revision
  return (
    <Card title="History">
      <Failure of={versions.error} />
      <Table
        caption="Versions of the rules"
        rows={versions.value?.items ?? []}
        id={(v) => String(v.revision)}
        empty={kept === false ? fromFile : versions.value ? (rule ? "No version that is kept changed this rule." : "No version is kept yet.") : ""}
        columns={[
          { name: "when", of: (v) => <Time at={v.when} /> },
          { name: "who", of: (v) => <Text of={v.who} /> },
          { name: "reason", wide: true, of: (v) => <Text of={(v.amends ? v.amends + ": " : "") + v.why} /> },
          {
            name: "revision",
            of: (v) => (
              <>
                <Revision of={v.revision} undated /> {v.revision === inForce.value?.revision && "in force"}
              </>
            ),
          },
          {
            name: "action",
            of: (v) =>
              v.revision !== newest && (
                <span class="buttons">
                  <button type="button" class="quiet" onClick={() => show(v)}>
                    Show changes
                  </button>
                  <button type="button" class="quiet" onClick={() => goBack(v)}>
                    Roll back
                  </button>
                </span>
              ),
          },
        ]}
      />
      {(before || versions.value?.next) && (
        <button type="button" class="quiet" onClick={() => setBefore(String(versions.value?.next ?? ""))}>
          {versions.value?.next ? "Older versions" : "The newest versions"}
        </button>
      )}
      {shown && <Compared of={shown} rule={rule} close={() => show(null)} />}
      {back && <Rollback to={back} close={() => goBack(null)} done={() => (goBack(null), versions.reload(), changed())} />}
    </Card>
  )
}

function Compared({ of, rule, close }: { of: Version; rule?: string; close: () => void }) {
  const [diff, set] = useState<Diff | null>(null)
  const { error, run } = useAction()
  useEffect(
    () =>
      void run(async () => {
        const { document } = await get<{ document: string }>("rules/versions/" + of.revision)
        set(await get<Diff>("rules:diff", { body: { document } }))
      }),
    [],
  )
  return (
    <Dialog title={"Changes by a rollback to revision " + revisionText(of.revision)} close={close}>
      <Failure of={error} />
      {diff && <DiffView of={diff} only={rule} />}
      <button type="button" onClick={close}>
        Close
      </button>
    </Dialog>
  )
}

function Rollback({ to, close, done }: { to: Version; close: () => void; done: () => void }) {
  const [why, setWhy] = useState("")
  const { busy, error, run } = useAction()
  const [etag, setEtag] = useState("") // of what one has seen: a change behind that is not replaced
  useEffect(() => void run(async () => setEtag((await getTagged<Rules>("rules")).etag)), [])
  const roll = () =>
    run(async () => {
      const made = await get<Applied>("rules:rollback", { body: { revision: to.revision, why }, match: etag })
      said.value = `Revision ${revisionText(made.version.revision)} has the rules of ${revisionText(to.revision)} again.`
      done()
    })
  return (
    <Dialog title="Roll back" close={close}>
      <p>
        A new version gets the rules of revision <Revision of={to.revision} />: <Text of={to.why} />
      </p>
      <form
        onSubmit={(e) => {
          e.preventDefault()
          void roll()
        }}
      >
        <Field label="Reason" value={why} set={setWhy} required maxLength={2000} />
        <Failure of={error} />
        <p class="buttons">
          <button type="submit" disabled={busy || !etag}>
            Roll back
          </button>
          <button type="button" class="quiet" onClick={close}>
            Cancel
          </button>
        </p>
      </form>
    </Dialog>
  )
}
