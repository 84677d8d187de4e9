#!/usr/bin/env bash
# Puts servers that production runs, Valkey 8 and Redis 8, into .tools/stores: make setup runs it. The
# system has one of its own release only, so they come from a newer release of Debian, through apt and
# from the mirror that apt is told to use, and they run with the libraries of that release. Nothing is
# installed. Where this fails, tests run on the system's Redis alone, and say so.
set -euo pipefail
cd "$(dirname "$0")/.."

release=trixie
packages=(valkey-server redis-server)
stores=.tools/stores

fail() { echo "setup: no Valkey 8 and Redis 8 for tests, which then run on the system's Redis alone: $*" >&2; exit 0; }

what="$release ${packages[*]} $(cksum <tools/stores.sh)"
if [ "$(cat $stores/installed.txt 2>/dev/null)" = "$what" ]; then exit 0; fi

command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || fail "apt is missing"
host=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' |
  awk -v host="$host" '$2 == host && $3 == "main" { print $1; exit }')
[ -n "$mirror" ] || fail "apt has no source of $host main"

echo "setup: unpacking Valkey 8 and Redis 8 into $stores"
rm -rf $stores
mkdir -p $stores/apt/lists/partial $stores/apt/archives/partial $stores/root
: >$stores/apt/status # as on a machine where nothing is installed: everything comes along that they need
echo "deb $mirror $release main" >$stores/apt/sources.list
apt() {
  apt-get -qq -o Dir::Etc::sourcelist="$PWD/$stores/apt/sources.list" -o Dir::Etc::sourceparts=- \
    -o Dir::State="$PWD/$stores/apt" -o Dir::State::status="$PWD/$stores/apt/status" \
    -o Dir::Cache="$PWD/$stores/apt" -o APT::Sandbox::User= "$@"
}
apt update || fail "no list of packages of $release"
apt --yes --no-install-recommends --download-only install "${packages[@]}" >/dev/null ||
  fail "${packages[*]} could not be downloaded"
for package in $stores/apt/archives/*.deb; do dpkg-deb -x "$package" $stores/root; done
rm -rf $stores/apt

# Their own loader finds their own libraries; the name tells the program what it is to be.
loader=$(cd $stores && echo root/usr/lib*/ld-linux-*.so.*)
libraries=$(cd $stores && dirname root/usr/lib/*/libc.so.6)
for program in valkey-server valkey-cli redis-server redis-cli; do
  cat >$stores/$program <<END
#!/bin/sh
here=\${0%/*}
exec "\$here/$loader" --library-path "\$here/$libraries" --argv0 $program "\$here/root/usr/bin/$program" "\$@"
END
  chmod 755 $stores/$program
done
for server in valkey-server redis-server; do $stores/$server --version || fail "$server does not run here"; done
echo "$what" >$stores/installed.txt
