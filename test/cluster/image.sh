#!/usr/bin/env bash
# image.sh ARCHIVE: packs the image of all pods that are not of the release, where no registry has them: busybox, the Valkey of
# `make setup`, its Envoy, and CoreDNS, as an archive that `ctr images import` takes. A container that has no command sleeps.
set -euo pipefail
archive=$(realpath "$1")
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root"/{bin,etc,lib,tmp}
chmod 1777 "$root/tmp"
echo 'root:x:0:0::/:/bin/sh' >"$root/etc/passwd"
cp /bin/busybox "$root/bin/"
for applet in $(busybox --list | grep -vx busybox); do ln -sf busybox "$root/bin/$applet"; done
cp -r .tools/stores "$root/stores" # with libraries of its own
cp .tools/kubernetes/coredns .tools/venv/lib/python3*/site-packages/envoy/_bin/envoy "$(command -v getent)" "$root/bin/"
# The libraries that the others need, and those by which glibc resolves names.
for program in "$root"/bin/{envoy,getent}; do ldd "$program"; done |
  grep -o '/[^ ]*' | sort -u | cat - <(ls /lib/*-linux-gnu/libnss_{dns,files}.so.2) |
  while read -r library; do cp --dereference --parents "$library" "$root"; done

tar -C "$root" --owner 0 --group 0 --numeric-owner --mtime @0 --sort name -cf "$work/layer.tar" .
digest=$(sha256sum "$work/layer.tar" | cut -d ' ' -f 1)
cat >"$work/config.json" <<END
{"architecture": "$(go env GOARCH)", "os": "linux", "rootfs": {"type": "layers", "diff_ids": ["sha256:$digest"]},
 "config": {"Env": ["PATH=/stores:/bin"], "Entrypoint": ["sh", "-c", "trap exit TERM INT; while :; do sleep 3600 & wait; done"]}}
END
echo '[{"Config": "config.json", "RepoTags": ["cluster.test/tools:1"], "Layers": ["layer.tar"]}]' >"$work/manifest.json"
tar -C "$work" -cf "$archive" manifest.json config.json layer.tar
