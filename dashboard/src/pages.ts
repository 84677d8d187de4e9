// The pages behind the first one: a chunk of their own.

export { EditPage } from "./edit"
export { Find } from "./find"
export { Fleet } from "./fleet"
export { Login } from "./login"
export { RulePage } from "./rule"
