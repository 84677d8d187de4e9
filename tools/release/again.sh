#!/usr/bin/env bash
# Makes the release of dist/ once more from nothing: in another folder, with another umask, with other times of the
# files and, with COLD=1, without what Go has compiled before. Fails where a byte differs.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD again=$(mktemp -d)
trap 'chmod -R u+w "$again"; rm -rf "$again"' EXIT
umask 077
mkdir "$again/tree"
git -c safe.directory='*' ls-files -z --cached --others --exclude-standard |
  tar -c --null -T - | tar -x --touch --no-same-permissions --no-same-owner -C "$again/tree"
cp -r .git "$again/tree"
cd "$again/tree"
[ -z "${COLD:-}" ] || export GOCACHE=$again/cache
make release
diff "$root/dist/SHA256SUMS" dist/SHA256SUMS
echo "made twice: the same bytes"
