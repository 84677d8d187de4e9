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

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" })
const day = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit" })

/** A time in the viewer's zone: of today without the day. */
export function time(at: Date): string {
  return at.toDateString() === new Date().toDateString() ? clock.format(at) : day.format(at)
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
