#!/usr/bin/env bash
# Mutation testing of what decides: make mutants, or tools/mutants.sh PACKAGE... for some packages of
# tools/mutants.txt. It prints a row per package: how many mutants the package's own tests killed, how many lived, how many
# no test reached, and the score; then each survivor. Run it on an idle machine, in a clean worktree: it copies the whole
# folder for each worker.
set -euo pipefail
cd "$(dirname "$0")/.."

gremlins=github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0
export GOFLAGS="${GOFLAGS:-} -short" # for the tests of each mutant; the coefficient keeps slow ones from counting as killed
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
GOBIN=$out go install "$gremlins"

# mutate PACKAGE FILE...: of these files, or of all if there are none.
mutate() {
  local package=$1 file but=()
  shift
  if [ $# -gt 0 ]; then
    for file in "$package"/*.go; do
      case " $* " in *" ${file##*/} "*) ;; *) but+=(-E "^${file##*/}\$") ;; esac
    done
  fi
  but+=(-E '^[^/]+/') # packages below it have lines of their own
  "$out/gremlins" unleash --silent --workers "${WORKERS:-2}" --timeout-coefficient 6 "${but[@]}" -o "$out/report.json" "./$package" >"$out/log" 2>&1 ||
    { cat "$out/log"; return 1; }
  python3 - "$package" "$out/report.json" <<'PY'
import collections, json, sys
package, report = sys.argv[1:]
count, lived = collections.Counter(), []
for f in json.load(open(report)).get("files") or []:
    for m in f["mutations"]:
        count[m["status"]] += 1
        if m["status"] in ("LIVED", "NOT COVERED"):
            lived.append("    %s/%s:%d:%d %s %s" % (package, f["file_name"].split("/")[-1], m["line"], m["column"], m["type"], m["status"]))
killed = count["KILLED"] + count["TIMED OUT"]
of = killed + count["LIVED"] + count["NOT COVERED"]
print("| `%s` | %d | %d | %d | %.0f %% |" % (package, killed, count["LIVED"], count["NOT COVERED"], 100 * killed / max(of, 1)))
print(*lived, sep="\n")
PY
}

while read -r package files; do
  if [ $# -gt 0 ] && [[ " $* " != *" $package "* ]]; then continue; fi
  # shellcheck disable=SC2086 # the files are words
  mutate "$package" $files
done < <(grep -v '^#' tools/mutants.txt)
