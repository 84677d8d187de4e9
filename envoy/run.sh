#!/usr/bin/env bash
# One region and one PoP on this machine, for `make run`. Ctrl-C stops both.
#
#   WEIR_RULES=FILE    rules file, which you edit while it runs; default store:, which keeps versions of the
#                      rules in .run/demo/rules.store, beginning with those of envoy/rules.yaml
#   NATIVE=1           the filter as a native module, not as a WASM module
#   ENVOY=FILE         Envoy binary, or its name in the PATH; default the one that `make setup` installs
set -u
rules=${WEIR_RULES:-}
case $rules in "" | store:) ;; *) rules=$(realpath -m -- "$rules") ;; esac
cd "$(dirname "$0")/.."

envoy=${ENVOY:-.tools/venv/bin/envoy}
rules=${rules:-store:}
logs=.run/demo
pop=127.0.0.1:10000 admin=127.0.0.1:9901 upstream=127.0.0.1:10001
region=127.0.0.1:8080 region_admin=127.0.0.1:8090

die() { echo "run.sh: $*" >&2; exit 1; }

# get HOST:PORT PATH prints the response to a GET with its headers, or nothing.
get() {
  { exec 3<>"/dev/tcp/${1%:*}/${1#*:}"; } 2>/dev/null || return 0
  printf 'GET %s HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n' "$2" >&3
  timeout 2 cat <&3
  exec 3>&-
}

listening() { (exec 3<>"/dev/tcp/${1%:*}/${1#*:}") 2>/dev/null; }

command -v -- "$envoy" >/dev/null || die "there is no Envoy at $envoy: set ENVOY to its path, such as ENVOY=/usr/bin/envoy; in a checkout run \`make setup\`"
bootstrap=envoy/pop.yaml module=bin/weir.wasm
[ -z "${NATIVE:-}" ] || bootstrap=envoy/native.yaml module=bin/weir.so
for file in $module:build bin/weir-regional:build bin/weir:build; do
  [ -e "${file%:*}" ] || die "${file%:*} is missing: run \`make ${file##*:}\`"
done
[ "$rules" = store: ] || [ -r "$rules" ] || die "cannot read the rules file $rules (WEIR_RULES sets it)"
for address in $pop $admin $upstream $region $region_admin; do
  ! listening "$address" || die "something listens on $address already; stop it (\`ss -ltnp 'sport = :${address#*:}'\` shows the process) and try again"
done

# Each child gets a process group of its own, so that Ctrl-C reaches only this
# script, which then stops them in order. If the script itself is killed, the kernel
# sends them SIGTERM.
set -m
children=()
start() {
  local name=$1; shift
  setpriv --pdeathsig TERM -- "$@" >"$logs/$name.log" 2>&1 &
  children+=("$!:$name")
  disown # otherwise bash reports how the process ended
}
stop() {
  trap - EXIT INT TERM HUP
  local i
  for ((i = ${#children[@]} - 1; i >= 0; i--)); do # the PoP before its region
    kill -TERM -- "-${children[i]%:*}" 2>/dev/null
    for _ in {1..50}; do
      kill -0 -- "-${children[i]%:*}" 2>/dev/null || break
      sleep 0.1
    done
    kill -KILL -- "-${children[i]%:*}" 2>/dev/null
  done
}
trap stop EXIT
trap 'echo; echo stopped; exit 0' INT TERM HUP

# alive prints the end of a child's log and exits when that child has died.
alive() {
  local child
  for child in "${children[@]}"; do
    kill -0 "${child%:*}" 2>/dev/null && continue
    tail -n 20 "$logs/${child#*:}.log" >&2
    die "${child#*:} has stopped; above is the end of $logs/${child#*:}.log"
  done
}

# await NAME SECONDS ADDRESS PATH REGEX waits until the response matches.
await() {
  local deadline=$((SECONDS + $2))
  until [[ $(get "$3" "$4") =~ $5 ]]; do
    alive
    [ $SECONDS -lt $deadline ] || die "$1 is not ready after $2 s; see $logs/"
    sleep 0.1
  done
}
ok='^HTTP/1.1 200 '

mkdir -p "$logs"
rm -f "$logs/state" # each demo begins with whole limits
start region bin/weir-regional --region local --rules "$rules" --state "$logs/state" --listen "$region" --admin-listen "$region_admin" --drain-wait 0s
if [ "$rules" = store: ] && [ ! -e "$logs/rules.store" ]; then
  await "the region" 20 "$region_admin" /healthz "$ok"
  bin/weir rules apply envoy/rules.yaml --admin "$region_admin" --reason "the rules of make run" >/dev/null || die "cannot put envoy/rules.yaml in force"
fi
await "the region" 20 "$region_admin" /readyz "$ok"
echo "dashboard: http://$region_admin/"
echo "region: $region, metrics http://$region_admin/metrics"
start envoy "$envoy" -c "$bootstrap" --disable-hot-restart --log-level warning --file-flush-interval-msec 500
[ -n "${NATIVE:-}" ] || echo "PoP: compiling the filter, a few seconds ..."
await "the PoP" 120 "$admin" /ready "$ok"
await "the rule set of the PoP" 20 "$admin" '/stats?filter=weir.calls' 'answered: [1-9]'
echo "PoP: http://$pop, admin http://$admin, access log $logs/envoy.log, rules $rules"
change="Change $rules: the new rules apply at once, or their mistakes are printed here."
[ "$rules" != store: ] || change="Change the rules in the dashboard, or: bin/weir rules apply FILE --admin $region_admin --reason TEXT
They are kept in $logs/rules.store for the next time; remove it to begin with envoy/rules.yaml again."
cat <<END

Try:
  http://$region_admin/ in a browser: the dashboard
  curl -i http://$pop/
      200 from the upstream; the header RateLimit shows what is left of the limit
  for i in 1 2 3 4 5 6 7; do curl -s -o /dev/null -w '%{http_code} ' -X POST http://$pop/login; done; echo
      the first requests get 200, then 429: the limit of the rule for /login is spent
  curl -i -H 'x-user-id: eve' -H 'x-tier: gold' http://$pop/v1/orders
      RateLimit-Policy is still "api";q=100: Envoy removes these headers of clients
      (to see q=1000, take the \`remove\` lines out of envoy/pop.yaml and start again)
  curl -s http://$admin/stats/prometheus | grep ^weir
      what the filter has decided so far, by rule
  bin/weir status; bin/weir top; bin/weir tap
      members, keys that come most, decisions as they are made (docs/cli.md has more)

$change
Ctrl-C stops everything.
END

# Prints what the region logs about its rules from now on.
exec 4<"$logs/region.log"
cat <&4 >/dev/null
while sleep 1; do
  while IFS= read -r -u 4 line; do
    [[ $line =~ level=([A-Z]+)\ msg=\"rules:\ (.*) ]] && echo "rules: ${BASH_REMATCH[2]/\"/}"
  done
  alive
done
