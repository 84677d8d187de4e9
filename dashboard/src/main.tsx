// The page: its head, the way between its parts, and the login.

import "./style.css"
import { render } from "preact"
import { useEffect } from "preact/hooks"
import { effect, signal } from "@preact/signals"
import { get, login, logIn, token } from "./api"
import { Banner } from "./banner"
import { inForce, status } from "./live"
import { visible } from "./format"
import { Link, Revision, said, Text } from "./widgets"
import { Overview } from "./overview"
import type { Whoami } from "./types"

type Pages = typeof import("./pages")

const route = signal(parse())

/** The parts of what is behind #/. */
function parse(): string[] {
  try {
    return location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent)
  } catch {
    return [""] // no one has such a link
  }
}

addEventListener("hashchange", () => {
  route.value = parse()
  said.value = ""
  document.querySelector<HTMLElement>("main")?.focus()
  scrollTo(0, 0) // the way to other pages is above it
})

const pages: [to: string, name: string][] = [
  ["", "Overview"],
  ["find", "Find a limit"],
  ["edit", "Rules"],
  ["fleet", "Fleet"],
]

const others = signal<Pages | null>(null)
const missing = signal(false)

/** The chunk of all that the first page does without; null: it is on its way. */
function load(): Pages | null {
  if (!others.value) {
    void import("./pages").then(
      (all) => (others.value = all),
      () => (missing.value = true),
    )
  }
  return others.value
}

function Page() {
  const [page, name = ""] = route.value
  if (page === "") return <Overview />
  const p = load()
  if (!p) return <p class="empty">{missing.value ? "A part of the page could not be loaded. Reload the page." : "Loading…"}</p>
  switch (page) {
    case "rule":
      return <p.RulePage key={name} rule={name} />
    case "find":
      return <p.Find key={name} rule={name} />
    case "edit":
      return <p.EditPage from={name} />
    case "fleet":
      return <p.Fleet />
  }
  return (
    <>
      <h1>There is no such page.</h1>
      <Link to="">To the overview</Link>
    </>
  )
}

/** Who is logged in; null: nobody, or it is not known yet. */
const me = signal<Whoami | null>(null)

effect(() => {
  if (login.value) me.value = null
  else void get<Whoami>("whoami").then((own) => (me.value = own), () => (me.value = null))
})

function Head() {
  const title = pages.find(([to]) => to === route.value[0])?.[1] ?? route.value[1] ?? "Weir"
  useEffect(() => {
    document.title = visible(title) + " · Weir"
  }, [title])
  return (
    <header class="head">
      <a class="skip" href="#main" onClick={(e) => (e.preventDefault(), document.querySelector<HTMLElement>("main")?.focus())}>
        Skip to the content
      </a>
      <strong>Weir</strong>
      <nav aria-label="Pages">
        {pages.map(([to, name]) => (
          <Link key={to} to={to} current={route.value[0] === to}>
            {name}
          </Link>
        ))}
      </nav>
      <span class="of">
        {status.value && <Text of={status.value.of} />}
        {inForce.value?.revision ? (
          <span>
            rules <Revision of={inForce.value.revision} />
          </span>
        ) : null}
        {me.value && (
          <span title={me.value.until && "until " + me.value.until}>
            <Text of={me.value.name} most={40} /> <span class="muted">({me.value.role})</span>
          </span>
        )}
        {token.value && (
          <button type="button" class="quiet" onClick={() => (logIn(""), location.reload())}>
            Log out
          </button>
        )}
      </span>
    </header>
  )
}

function Login() {
  const p = load()
  return p && <p.Login />
}

function App() {
  return (
    <>
      <Head />
      <Banner brief={route.value[0] !== ""} />
      <main id="main" tabIndex={-1}>
        <Page />
      </main>
      <div class="said" role="status" aria-live="polite">
        {said.value}
      </div>
      {login.value && <Login />}
    </>
  )
}

render(<App />, document.getElementById("app")!)
