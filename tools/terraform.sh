#!/usr/bin/env bash
# Prints the path of the program that `make terraform-test` uses: terraform or tofu from the
# PATH, else OpenTofu, built from its source into .tools, which takes some minutes once.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v terraform && exit
command -v tofu && exit

# -mod=mod: go.sum pins what go.mod selects, without a line for each of its hundreds of modules.
pinned=tools/tofu/go.mod
if ! [ -x .tools/tofu ] || ! cmp -s $pinned .tools/tofu.installed; then
  echo "terraform.sh: building OpenTofu, which takes some minutes the first time" >&2
  CGO_ENABLED=0 go build -C tools/tofu -mod=mod -trimpath -ldflags='-s -w' -o ../../.tools/tofu github.com/opentofu/opentofu/cmd/tofu >&2
  cp $pinned .tools/tofu.installed
fi
echo "$PWD/.tools/tofu"
