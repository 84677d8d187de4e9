#!/usr/bin/env bash
# For `make compose-test`: starts the stack of docker-compose.yml under another name, drives it
# from outside, and takes it down again in all cases. Needs Docker with compose, bin/ and .tools/.
set -euo pipefail
cd "$(dirname "$0")/../.."
export COMPOSE_PROJECT_NAME=weir-test COMPOSE_PROFILES=observability
export DOCKER_BUILDKIT=1 # the cache of the Dockerfile needs it

down() {
  COMPOSE_PROFILES=observability,replicas,us-home docker compose down --volumes --remove-orphans --timeout 10 >/dev/null 2>&1 || true
}
failed() {
  docker compose ps --all --format '{{.Service}}: {{.Status}}'
  docker compose logs --no-color --tail 15
}
trap down EXIT
trap 'exit 130' INT TERM HUP

mkdir -p .run
down # what a killed run left
# Grafana takes no part in what is tested.
mapfile -t services < <(docker compose config --services | grep -v '^grafana$')
docker compose build --quiet "${services[@]}"
built=$SECONDS
docker compose up --detach --wait --wait-timeout 420 "${services[@]}" || { failed; exit 1; }
up=$SECONDS
status=0
WEIR_COMPOSE=1 go test -json -count=1 -timeout 30m ./test/compose | tee .run/compose.json | .tools/tally || { status=1; failed; }
down
echo "compose: built in $built s, up in $((up - built)) s, tested in $((SECONDS - up)) s, down and all in $SECONDS s"
exit "$status"
