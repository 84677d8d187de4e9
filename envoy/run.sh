#!/usr/bin/env bash
# One region and one PoP on this machine, for `make run`. Ctrl-C stops both.
#
#   WEIR_RULES=FILE    rules file, which you edit while it runs; default store:, which keeps versions of the
#                      rules in .run/demo/rules.store, beginning with those of envoy/rules.yaml
#   NATIVE=1           the filter as a native module, not as a WASM module
#   DEMO=1             ten minutes of traffic from several clients; Envoy keeps the headers x-user-id and x-tier of
#                      clients, and each start begins with envoy/rules.yaml (in .run/traffic)
#   ENVOY=FILE         Envoy binary, or its name in the PATH; default the one that `make setup` installs
set -u
rules=${WEIR_RULES:-}
case $rules in "" | store:) ;; *) rules=$(realpath -m -- "$rules") ;; esac
cd "$(dirname "$0")/.."

envoy=${ENVOY:-.tools/venv/bin/envoy}
rules=${rules:-store:}
logs=.run/demo
[ -z "${DEMO:-}" ] || logs=.run/traffic
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
[ -z "${DEMO:-}" ] || [ -x .tools/traffic ] || die "the traffic of DEMO=1 needs .tools/traffic: run \`make run DEMO=1\` in a checkout"
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
traffic= # its process
stop() {
  trap - EXIT INT TERM HUP
  [ -z "$traffic" ] || kill -TERM "$traffic" 2>/dev/null
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

[ -z "${DEMO:-}" ] || rm -rf "$logs"
mkdir -p "$logs"
rm -f "$logs/state" # each demo begins with whole limits
if [ -n "${DEMO:-}" ]; then
  sed -E '/- \{ remove: x-(user-id|tier) }/d' "$bootstrap" >"$logs/pop.yaml" # as if a filter had authenticated the clients, and set these headers
  bootstrap=$logs/pop.yaml
fi
start region bin/weir-regional --region local --rules "$rules" --state "$logs/state" --listen "$region" --admin-listen "$region_admin" --drain-wait 0s
if [ "$rules" = store: ] && [ ! -e "$logs/rules.store" ]; then
  await "the region" 20 "$region_admin" /healthz "$ok"
  bin/weir rules apply envoy/rules.yaml --admin "$region_admin" --reason "the rules of make run" >/dev/null || die "cannot put envoy/rules.yaml in force"
fi
await "the region" 20 "$region_admin" /readyz "$ok"
echo "dashboard: http://$region_admin/"
echo "region: $region, metrics http://$region_admin/metrics"
# Two workers, so that the capacity of the shed rule suffices for each.
start envoy "$envoy" -c "$bootstrap" --concurrency 2 --disable-hot-restart --log-level warning --file-flush-interval-msec 500
[ -n "${NATIVE:-}" ] || echo "PoP: compiling the filter, a few seconds ..."
await "the PoP" 120 "$admin" /ready "$ok"
await "the rule set of the PoP" 20 "$admin" '/stats?filter=weir.calls' 'answered: [1-9]'
echo "PoP: http://$pop, admin http://$admin, access log $logs/envoy.log, rules $rules"
change="Change $rules: the new rules apply at once, or their mistakes are printed here."
[ "$rules" != store: ] || change="Change the rules in the dashboard, or: bin/weir rules apply FILE --reason TEXT
They are kept in $logs/rules.store for the next time; remove it to begin with envoy/rules.yaml again."
[ -z "${DEMO:-}" ] || change="Change the rules in the dashboard. The next \`make run DEMO=1\` begins with envoy/rules.yaml again."

# step COMMAND EXPECTED adds something to try.
commands=() expected=()
step() { commands+=("$1") expected+=("$2"); }
explain() { sed "s/^/     /" <<<"${expected[$1]}"; }
status="-s -o /dev/null -w '%{http_code} '"

step "curl -si http://$pop/" \
"Expect 200 from the upstream, and RateLimit: \"client\" with what is left of 600 requests per minute.
The rule client counts all requests of your address."
step "for i in 1 2 3 4 5 6 7; do curl $status -X POST http://$pop/login; done; echo" \
"Expect 200 five times, then 429.
The rule login admits five logins per minute and client address. Retry-After states when the next one passes."
step "for i in 1 2 3; do curl $status -X POST -H 'x-envoy-fault-delay-request: 3000' http://$pop/upload/\$i & done; wait; echo" \
"Expect 429 at once, and 200 twice after three seconds.
The header makes the upstream slow. The rule upload admits two uploads of a client at a time."
step "for i in {1..30}; do curl $status -H 'x-envoy-fault-delay-request: 2000' http://$pop/shop/export/\$i & done; wait; echo" \
"Expect 503 for most of the 30, at once, and 200 for about eight after two seconds.
The rule overload protects a slow upstream of 20 requests. Exports get 40 % of it, so that checkouts still pass."
if [ -n "${DEMO:-}" ]; then
  step "curl -si -H 'x-user-id: eve' -H 'x-tier: gold' http://$pop/v1/orders" \
"Expect RateLimit-Policy: \"api\";q=1000, and q=100 without x-tier.
The rule api counts by user, and has an override for the tier gold."
else
  step "curl -si -H 'x-user-id: eve' -H 'x-tier: gold' http://$pop/v1/orders" \
"Expect RateLimit-Policy: \"api\";q=100, although gold users have 1000 per minute.
Envoy removes x-tier and x-user-id, or clients could choose their limit. \`make run DEMO=1\` lets them pass."
fi
step "for i in {1..100}; do curl -s -o /dev/null http://$pop/; sleep 0.05; done & bin/weir top --by rule" \
"Expect rejections of no rule, within five seconds, and a number in the column of trial for would-be rejections.
The rule trial (60 per minute) is in shadow mode: it rejects nothing, and counts what it would reject."

printf '\nTo try: type a number here, or run the command in another terminal.\n'
for i in "${!commands[@]}"; do
  printf '\n%2d.  %s\n' $((i + 1)) "${commands[i]}"
  explain "$i"
done
cat <<END

The dashboard http://$region_admin/ shows all of it. Single decisions: bin/weir tap. The filter's counters:
  curl -s http://$admin/stats/prometheus | grep ^weir

$change
Ctrl-C stops everything.
END

if [ -n "${DEMO:-}" ]; then
  setpriv --pdeathsig TERM -- .tools/traffic "$pop" &
  traffic=$!
  disown
fi

# Runs the steps that are typed, and prints what the region logs about its rules from now on.
trap '' TTIN # in the background of a shell nobody types
exec 4<"$logs/region.log"
cat <&4 >/dev/null
typed=1 # 0: the input has ended
while :; do
  number=
  if [ $typed = 0 ]; then
    sleep 1
  else
    read -r -t 1 number || [ $? -gt 128 ] || typed=0 # above 128: a second without a line
  fi
  if [[ $number =~ ^[1-9]$ && $number -le ${#commands[@]} ]]; then
    echo "\$ ${commands[number - 1]}"
    bash -c "${commands[number - 1]}"
    explain $((number - 1))
  elif [ -n "$number" ]; then
    echo "type a number from 1 to ${#commands[@]}"
  fi
  while IFS= read -r -u 4 line; do
    [[ $line =~ level=([A-Z]+)\ msg=\"rules:\ (.*) ]] && echo "rules: ${BASH_REMATCH[2]/\"/}"
  done
  alive
done
