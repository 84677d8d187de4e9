#!/usr/bin/env bash
# Plants the faults of list.txt one after the other, each in a worktree of HEAD: the test named for it has to fail.
# With arguments, only these faults. Each takes the place of a test through programs that is gone: what that one was
# for, a faster test notices.
set -euo pipefail
cd "$(dirname "$0")/../.."
faults=$PWD/test/faults
tree=$(mktemp -d)/tree
git worktree add --quiet --detach "$tree"
trap 'git worktree remove --force "$tree"; rmdir "$(dirname "$tree")"' EXIT
ln -s "$PWD/.tools" "$PWD/bin" "$tree/"
passed=0 failed=0
while read -r fault package test; do
  case $fault in '' | '#'*) continue ;; esac
  [ $# = 0 ] || [[ " $* " == *" $fault "* ]] || continue
  printed=$(git -C "$tree" apply "$faults/$fault.patch" 2>&1 &&
    go test -C "$tree" -vet=off -short -count=1 -run "^$test\$" "$package" 2>&1) || true
  if grep -q "^--- FAIL: $test " <<<"$printed"; then
    passed=$((passed + 1))
  else # it passes, or there is no such fault to plant any more
    failed=$((failed + 1))
    echo "failed: $package $test does not notice the fault $fault: ${printed:0:300}"
  fi
  git -C "$tree" checkout --quiet .
done <"$faults/list.txt"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
