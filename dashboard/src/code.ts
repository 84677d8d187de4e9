// The editor: CodeMirror, in a chunk of its own. It is in a shadow tree, where its styles need no exception of the policy.

import { autocompletion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete"
import { yaml } from "@codemirror/lang-yaml"
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language"
import { linter } from "@codemirror/lint"
import { MergeView } from "@codemirror/merge"
import { basicSetup, EditorView } from "codemirror"
import { tags } from "@lezer/highlight"
import { fields, place, values } from "./complete"
import type { Finding } from "./types"

export interface Editor {
  /** Shows a line, from 1. */
  show(line: number): void
  replace(text: string): void
  end(): void
}

const look = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--card)", fontSize: "14px" },
  "&.cm-focused": { outline: "2px solid var(--accent)" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--back)", color: "var(--muted)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--select) !important" },
  ".cm-tooltip": { backgroundColor: "var(--card)", color: "var(--text)", border: "1px solid var(--line)" },
})

const colours = syntaxHighlighting(
  HighlightStyle.define([
    { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
    { tag: [tags.comment, tags.meta, tags.punctuation, tags.separator, tags.brace, tags.squareBracket], color: "var(--muted)" },
    { tag: [tags.string, tags.special(tags.string), tags.content], color: "var(--text)" },
  ]),
)

/** Makes an editor below an element. changed gets the text, and check finds its mistakes a moment after one has typed. */
export function edit(below: HTMLElement, text: string, changed: (text: string) => void, check: (text: string) => Promise<Finding[]>): Editor {
  const view = new EditorView({
    doc: text,
    root: below.shadowRoot ?? below.attachShadow({ mode: "open" }),
    parent: below.shadowRoot as unknown as Element,
    extensions: [
      basicSetup,
      yaml(),
      look,
      colours,
      text.length < 1e6 ? EditorView.lineWrapping : [], // of very many lines it measures in circles
      EditorView.contentAttributes.of({ "aria-label": "Rules, in YAML" }),
      autocompletion({ override: [complete] }),
      EditorView.updateListener.of((u) => {
        if (u.docChanged) changed(u.state.doc.toString())
      }),
      linter(async (v) => (await check(v.state.doc.toString())).map((f) => marked(v, f)), { delay: 400 }),
    ],
  })
  return {
    show(line) {
      const at = view.state.doc.line(Math.min(Math.max(line, 1), view.state.doc.lines)).from
      view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: "center" }) })
      view.focus()
    },
    replace(text) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } })
    },
    end() {
      view.destroy()
    },
  }
}

function marked(view: EditorView, f: Finding) {
  const line = view.state.doc.line(Math.min(Math.max(f.line, 1), view.state.doc.lines))
  return { from: Math.min(line.from + Math.max(f.column - 1, 0), line.to), to: line.to, severity: f.warning ? ("warning" as const) : ("error" as const), message: f.reason }
}

function complete(context: CompletionContext): CompletionResult | null {
  const { path, value, word } = place(context.state.sliceDoc(Math.max(0, context.pos - 20_000), context.pos))
  if (!word && !context.explicit) return null
  const options = (value ? values(path) : fields(path)).map((o) => ({
    label: o.label,
    info: o.info,
    apply: o.field ? o.label + ": " : o.label,
    type: o.field ? "property" : "constant",
  }))
  return options.length ? { from: context.pos - word.length, options, validFor: /^[\w-]*$/ } : null
}

/** Shows two texts side by side, neither to be changed, until what it returns is called. */
export function compare(below: HTMLElement, left: string, right: string): () => void {
  const root = below.shadowRoot ?? below.attachShadow({ mode: "open" })
  const side = (doc: string, label: string) => ({
    doc,
    extensions: [basicSetup, yaml(), look, colours, EditorView.lineWrapping, EditorView.editable.of(false), EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" })],
  })
  const view = new MergeView({ a: side(left, "Theirs"), b: side(right, "Yours"), parent: root as unknown as Element, root, collapseUnchanged: {} })
  return () => view.destroy()
}
