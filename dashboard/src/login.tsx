// The login: over whatever one sees, which stays as it is.

import { useState } from "preact/hooks"
import { login, logIn } from "./api"
import { Dialog, Field } from "./forms"
import { Text } from "./widgets"

export function Login() {
  const [text, set] = useState("")
  if (!login.value) return null
  return (
    <Dialog title="Log in">
      <p role="alert">
        <Text of={login.value.message} most={500} />
      </p>
      <form
        onSubmit={(e) => {
          e.preventDefault()
          logIn(text)
          set("")
        }}
      >
        <Field label="Token" type="password" value={text} set={set} required hint="The token stays in this tab. weir admin token makes tokens." />
        <button type="submit">Log in</button>
      </form>
    </Dialog>
  )
}
