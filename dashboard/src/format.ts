// Numbers, times and texts of others, for people.

/** A rate or count in at most four digits, which does not jump between two forms. */
export function number(n: number): string {
  for (const [unit, name] of [[1e9, " G"], [1e6, " M"], [1e4, " k"]] as const) {
    if (Math.abs(n) >= unit) return (n / (unit === 1e4 ? 1e3 : unit)).toFixed(1) + name
  }
  return Number.isInteger(n) ? String(n) : n.toFixed(1)
}

export function percent(share: number): string {
  return (share * 100).toFixed(share < 0.1 ? 1 : 0) + " %"
}

/** How long something takes or has lasted. */
export function duration(ms: number): string {
  for (const [unit, name] of [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"]] as const) {
    if (ms >= 2 * unit) return Math.floor(ms / unit) + " " + name
  }
  return Math.round(ms / 1000) + " s"
}

/** A time in the viewer's zone as ISO 8601 writes it, such as 10:59:41+01:00; the date comes first unless it is today. */
export function time(at: Date): string {
  const east = -at.getTimezoneOffset() // minutes
  const [date, clock] = new Date(at.getTime() + east * 60_000).toISOString().slice(0, 19).split("T")
  const offset = new Date(Math.abs(east) * 60_000).toISOString().slice(11, 16)
  const zone = east === 0 ? "Z" : (east < 0 ? "-" : "+") + offset
  return (at.toDateString() === new Date().toDateString() ? "" : date + " ") + clock + zone
}

/** The last digits of a revision, which tell versions apart. */
export function shortRevision(of: number): string {
  return madeAt(of) ? String(of).slice(-6) : String(of)
}

/** When rules got their revision; null: the revision is a number that a rules file states. Versions that are kept have the microseconds since 1970, files their milliseconds. */
export function madeAt(revision: number): Date | null {
  if (revision < 1e12) return null
  return new Date(revision < 1e14 ? revision : revision / 1000)
}

/** A revision for a sentence, such as 610476 (10:59:41Z). */
export function revisionText(of: number): string {
  const made = madeAt(of)
  return shortRevision(of) + (made ? ` (${time(made)})` : "")
}

// Control characters, what turns the direction of writing, spaces but the usual one, and what is seen as nothing.
const unseen = /[\p{C}\p{Zl}\p{Zp}\p{DI}\u2800]|(?! )\p{Zs}/gu

/** A text of others, at most so long, in which unseen characters are written as in a key: byte by byte. */
export function visible(text: string, most = 120): string {
  const cut = [...text].length > most ? [...text].slice(0, most).join("") + "…" : text
  return cut.replace(unseen, (c) => [...new TextEncoder().encode(c)].map((b) => "\\x" + b.toString(16).padStart(2, "0")).join(""))
}

/** The rate of a key that it has at least. */
export function certain(of: { per_second: number; over: number }): number {
  return Math.max(0, of.per_second - of.over)
}

/** The name of a rule as its document has it: of several limits each is a rule, such as login@1d. */
export function written(rule: string): string {
  return rule.split("@", 1)[0]!
}
