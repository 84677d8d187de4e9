// The text of a rules file, as far as the page looks into it.

/** The lines of the rule with a name, and the number of the first one; null: the text does not have it in a form that is plain to see. */
export function ruleText(document: string, name: string): { text: string; line: number } | null {
  const lines = document.split("\n")
  const from = lines.findIndex((l) => l.startsWith("rules:"))
  const to = lines.findIndex((l, i) => i > from && /^\w/.test(l))
  const named = lines.findIndex((l, i) => i > from && nameOf(l) === name)
  if (named < 0 || (to >= 0 && named > to)) return null
  let begin = named
  while (begin >= 0 && !/^\s*- /.test(lines[begin]!)) begin--
  if (begin < 0) return null
  const indent = lines[begin]!.search(/\S/)
  let end = begin + 1
  while (end < lines.length && (lines[end]!.trim() === "" || lines[end]!.search(/\S/) > indent)) end++
  while (begin > 0 && /^\s*#/.test(lines[begin - 1]!)) begin--
  return { text: lines.slice(begin, end).join("\n").trimEnd() + "\n", line: begin + 1 }
}

/** The name that a line states for a rule, as far as that is on one line. */
function nameOf(line: string): string | undefined {
  return /^\s*(?:- )?\s*(?:\{\s*)?name:\s*["']?([\w-]+)["']?\s*(?:[,}#].*)?$/.exec(line)?.[1]
}

/** What a field of a rule states; of several the first one, outside of comments. */
const stated = (field: string) => new RegExp(`^((?:[^#\\n]*?[{,\\s])??${field}:\\s*["']?)([\\w/]+)`, "m")

/** The limit of a rule, as 50/1m, as far as its text has one in one place. */
export function limitOf(document: string, name: string): string | undefined {
  return stated("limit").exec(ruleText(document, name)?.text ?? "")?.[2]
}

/** Whether a rule sheds load, and so has no limit, as far as its text says so. */
export function sheds(document: string, name: string): boolean {
  return /^(?:[^#\n]*[{,\s])?shed:/m.test(ruleText(document, name)?.text ?? "")
}

/** Where a rule is counted, as far as its text says so. */
export function scopeOf(document: string, name: string): string {
  return stated("scope").exec(ruleText(document, name)?.text ?? "")?.[2] ?? "region"
}

/** The same document in which the rule has another mode. */
export function withMode(document: string, name: string, mode: string): string | null {
  const found = ruleText(document, name)
  if (!found) return null
  const set = stated("mode").test(found.text)
    ? found.text.replace(stated("mode"), "$1" + mode)
    : found.text.replace(/^(\s*-\s+(?:\{\s*)?)(name:\s*["']?[\w-]+["']?)(.*)$/m, (_, dash: string, own: string, rest: string) =>
        dash.includes("{") ? `${dash}${own}, mode: ${mode}${rest}` : `${dash}${own}${rest}\n${" ".repeat(dash.length)}mode: ${mode}`,
      )
  return set === found.text ? null : document.replace(found.text.trimEnd(), () => set.trimEnd())
}
