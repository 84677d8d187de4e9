#!/usr/bin/env bash
# For `make test`: runs the tests of the store in Redis once more on each server of .tools/stores,
# which tools/stores.sh puts there, all servers at once. Writes lines for tools/tally.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(./internal/redis/script ./internal/redis/redisstore/...)
servers=()
for name in valkey-server redis-server; do
  if [ -f .tools/stores/installed.txt ]; then servers+=(".tools/stores/$name"); fi
done
if [ ${#servers[@]} -eq 0 ]; then
  echo "NOT RUN: ${packages[*]} on Valkey 8 and Redis 8, which are not here: run make setup"
  exit 0
fi

# The line that the server prints of itself: "Valkey server v=8.1.1 sha=…".
version() { "$1" --version | sed 's/ server v=\([^ ]*\).*/ \1/'; }

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
failed=0 runs=()
for server in "${servers[@]}"; do
  name=$(version "$server")
  echo "also on $name: ${packages[*]}"
  # A failure is to name the server.
  WEIR_REDIS_SERVER=$PWD/$server go test -json -vet=off -shuffle=on -count=1 -timeout 10m -p 2 "${packages[@]}" |
    sed "s/\"Package\":\"/&$name: /; s/\"Output\":\"ok  *\\\\t/&$name: /" >"$out/$name" &
  runs+=($!)
done
for run in "${runs[@]}"; do wait "$run" || failed=1; done
cat "$out"/*
exit $failed
