#!/usr/bin/env bash
# Removes what the tests here make in the engine: it has a label, and images have a name.
set -euo pipefail

of() { docker "$@" --quiet --filter label=weir-test-pods; }

of ps --all | xargs --no-run-if-empty docker rm --force --volumes >/dev/null
of volume ls | xargs --no-run-if-empty docker volume rm >/dev/null
of network ls | xargs --no-run-if-empty docker network rm >/dev/null
docker image ls --format '{{.Repository}}:{{.Tag}}' 'weir-test-pods/*' | xargs --no-run-if-empty docker rmi >/dev/null
