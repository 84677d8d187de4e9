// Completion of rules files, from the schema that the programs are tested against.

import schema from "../../schema/rules.schema.json"

/** As much of a JSON schema as is looked at. */
interface Schema {
  $ref?: string
  description?: string
  enum?: unknown[]
  const?: unknown
  properties?: Record<string, Schema>
  items?: Schema
  oneOf?: Schema[]
  anyOf?: Schema[]
  allOf?: Schema[]
}

export interface Option {
  label: string
  info?: string
  /** A field, which wants a value behind it. */
  field: boolean
}

const root = schema as unknown as Schema & { $defs: Record<string, Schema> }

/** What a place may have: all alternatives of a schema, its references followed. */
function alternatives(of: Schema | undefined, depth = 0): Schema[] {
  if (!of || depth > 8) return []
  const next = [...(of.oneOf ?? []), ...(of.anyOf ?? []), ...(of.allOf ?? [])]
  if (of.$ref) next.push(root.$defs[of.$ref.replace("#/$defs/", "")]!)
  return [of, ...next.flatMap((s) => alternatives(s, depth + 1))]
}

/** The schemas of what is behind these fields, through lists. */
function at(path: string[]): Schema[] {
  let here = alternatives(root)
  for (const name of path) {
    here = here.flatMap((s) => [s, ...alternatives(s.items)]).flatMap((s) => alternatives(s.properties?.[name]))
  }
  return here.flatMap((s) => [s, ...alternatives(s.items)])
}

/** The fields that the mapping behind a path may have. */
export function fields(path: string[]): Option[] {
  const all = new Map<string, Option>()
  for (const s of at(path)) {
    for (const [label, of] of Object.entries(s.properties ?? {})) {
      all.set(label, { label, info: alternatives(of).find((a) => a.description)?.description, field: true })
    }
  }
  return [...all.values()]
}

/** The words that the value behind a path may be. */
export function values(path: string[]): Option[] {
  const words = at(path).flatMap((s) => [...(s.enum ?? []), ...(s.const === undefined ? [] : [s.const])])
  return [...new Set(words)].filter((w) => typeof w === "string" || typeof w === "boolean").map((w) => ({ label: String(w), field: false }))
}

/** Where one types: the fields around it, and whether a value is wanted. */
export function place(before: string): { path: string[]; value: boolean; word: string } {
  const lines = before.split("\n")
  const line = lines.pop()!
  const word = /[\w-]*$/.exec(line)![0]
  const rest = line.slice(0, line.length - word.length)
  const inline = flow(rest)
  let indent = rest.search(/[^\s-]/)
  const own: string[] = []
  if (indent < 0) indent = rest.length
  else {
    const key = /^\s*(?:- )*([\w-]+):/.exec(rest)
    if (key) own.push(key[1]!)
  }
  const path = [...above(lines, indent), ...own, ...inline.path]
  const value = /[\w-]+:\s+\[?(?:[\w-]+,\s*)*$/.test(rest) && !inline.open
  return { path, value: value || inline.value, word }
}

/** The fields of the lines above that a line with this indent is below. */
function above(lines: string[], indent: number): string[] {
  const path: string[] = []
  for (const line of lines.reverse()) {
    const key = /^((?:\s|- )*)([\w-]+):/.exec(line)
    if (!key || key[1]!.length >= indent) continue
    if (line.trimEnd().endsWith(":")) path.unshift(key[2]!)
    indent = Math.min(key[1]!.length, line.search(/\S/))
  }
  return path
}

/** The fields of the mappings in braces that are open at the end of a line. */
function flow(text: string): { path: string[]; value: boolean; open: boolean } {
  const stack: string[] = []
  let key = ""
  for (const [token] of text.matchAll(/[\w-]+:|[{}[\],]/g)) {
    if (token === "{" || token === "[") {
      stack.push(token === "{" ? key : "")
      key = ""
    } else if (token === "}" || token === "]") stack.pop()
    else if (token === ",") key = ""
    else key = token.slice(0, -1)
  }
  const open = stack.length > 0
  const value = open && key !== "" && /:\s*$/.test(text)
  const path = stack.slice(1).filter((name) => name !== "")
  return { path: value ? [...path, key] : path, value, open }
}
