// What pages ask for, what they send, and what becomes of it.

import type { ComponentChildren } from "preact"
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks"
import { get, Problem } from "./api"
import { able } from "./live"
import { Text } from "./widgets"

/** What went wrong, with its findings. */
export function Failure({ of }: { of: unknown }) {
  if (!of) return null
  const findings = of instanceof Problem ? of.findings : []
  return (
    <div role="alert" class="failure">
      <Text of={of instanceof Error ? of.message : String(of)} most={2000} />
      {findings.length > 0 && (
        <ul>
          {findings.map((f, i) => (
            <li key={i}>
              {f.line > 0 && `line ${f.line}: `}
              <Text of={f.reason} most={500} />
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}

/** An answer of the API, asked for again when the path changes, reload is called, or there was trouble, such as a missing login. */
export function useAnswer<T>(path: string | null): { value: T | null; error: unknown; reload: () => void } {
  const [state, set] = useState<{ path: string | null; value: T | null; error: unknown }>({ path: null, value: null, error: null })
  const [turn, again] = useState(0)
  useEffect(() => {
    if (state.error && able.value) again((n) => n + 1)
  }, [able.value])
  useEffect(() => {
    if (path === null) return
    const gone = new AbortController()
    get<T>(path, { signal: gone.signal }).then(
      (value) => set({ path, value, error: null }),
      (error) => gone.signal.aborted || set((s) => ({ path, value: s.path === path ? s.value : null, error })),
    )
    return () => gone.abort()
  }, [path, turn])
  const fresh = state.path === path
  return { value: fresh ? state.value : null, error: fresh ? state.error : null, reload: () => again((n) => n + 1) }
}

/** A button whose click takes a while; it shows why that failed. */
export function useAction(): { busy: boolean; error: unknown; run: (what: () => Promise<void>) => Promise<void> } {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const run = async (what: () => Promise<void>) => {
    setBusy(true)
    setError(null)
    try {
      await what()
    } catch (err) {
      setError(err)
    } finally {
      setBusy(false)
    }
  }
  return { busy, error, run }
}

/** A dialog of the browser: Escape closes it, and the focus stays in it. */
export function Dialog(p: { title: string; close?: () => void; children: ComponentChildren }) {
  const at = useRef<HTMLDialogElement>(null)
  useLayoutEffect(() => {
    at.current?.showModal()
    return () => at.current?.close() // and the focus is where it was; a later effect has no element any more
  }, [])
  return (
    <dialog
      ref={at}
      aria-label={p.title}
      onCancel={(e) => {
        e.preventDefault()
        p.close?.()
      }}
      onClose={() => at.current?.showModal()} // Escape twice closes it even so
    >
      <h2>{p.title}</h2>
      {p.children}
    </dialog>
  )
}

/** A labelled input. */
export function Field(p: { label: string; value: string; set: (value: string) => void; hint?: string; required?: boolean; size?: number; type?: "text" | "password"; maxLength?: number }) {
  const { label, value, set, hint, type, ...rest } = p
  const id = useId()
  return (
    <p class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        type={type as "text"}
        value={value}
        onInput={(e) => set(e.currentTarget.value)}
        aria-describedby={hint && id + "-hint"}
        autocomplete="off"
        {...rest}
      />
      {hint && <small id={id + "-hint"}>{hint}</small>}
    </p>
  )
}
