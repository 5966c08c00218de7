#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# test.sh: the action in a bare container root of Debian 13, as repositories use it: setup.sh, and then the steps of each
# example's workflow. Go comes from this machine, in place of actions/setup-go, with its caches. Needs root, and Debian's
# mirror.
#
#   ACTION_MIRROR   the Debian mirror (the one that this machine's apt uses)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(cd "$here/../../.." && pwd)
say() { echo "action: $*" >&2; }
[[ $EUID == 0 ]] || { say "needs root"; exit 4; }
command -v mmdebstrap >/dev/null || { say "there is no mmdebstrap: on Debian, apt-get install mmdebstrap"; exit 1; }
mirror=$("$repository/interop/mirror.sh" ACTION_MIRROR)
root=$(mktemp -d "${TMPDIR:-/tmp}/ramjet-action.XXXXXX")
trap 'rm -rf --one-file-system "$root"' EXIT

say "unpacking Debian 13"
mmdebstrap --quiet --mode=root --variant=apt --include=ca-certificates --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-exclude=/usr/share/man/*' trixie "$root" "deb $mirror trixie main"
mkdir -p "$root"/{usr/local/go,go/mod,go/build,ramjet,tools,github,work}
tar -C "$repository" --exclude=./.git -cf - . | tar -C "$root/ramjet" -xf -
cp /etc/resolv.conf "$root/etc/resolv.conf"

# inside COMMAND...: runs it in the root, with mounts and processes of its own.
inside() {
  # shellcheck disable=SC2016 # the inner shell expands it
  unshare --mount --pid --fork --kill-child bash -euc '
    root=$1; shift
    mount --make-rprivate /
    mount --bind "$(go env GOROOT)" "$root/usr/local/go"
    mount --bind "$(go env GOMODCACHE)" "$root/go/mod"
    mount --bind "$(go env GOCACHE)" "$root/go/build"
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    mount --rbind /dev "$root/dev"
    exec chroot "$root" "$@"' inside "$root" env -i HOME=/root \
    PATH="$(paste -sd: "$root/github/path" 2>/dev/null || true):/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
    GOMODCACHE=/go/mod GOCACHE=/go/build GOPROXY="$(go env GOPROXY)" GOSUMDB="$(go env GOSUMDB)" GOTOOLCHAIN=local \
    GITHUB_PATH=/github/path GITHUB_ENV=/github/env GITHUB_OUTPUT=/github/output RUNNER_TOOL_CACHE=/tools "$@"
}

# Without what a step of a workflow has, it says what is missing.
if inside env -u GITHUB_PATH /ramjet/.github/actions/setup-ramjet/setup.sh >"$root/said" 2>&1; then
  say "setup.sh runs outside of a workflow"; exit 1
fi
grep -q "GITHUB_PATH is not set" "$root/said" || { cat "$root/said"; exit 1; }

for example in "$here"/examples/*/; do
  name=$(basename "$example")
  workflow=$example/workflow.yml
  rm -rf "$root"/github/*
  say "$name: the action"
  packages=$(sed -n 's/^ *packages: //p' "$workflow")
  inside env PACKAGES="$packages" /ramjet/.github/actions/setup-ramjet/setup.sh >"$root/said" 2>&1 || { cat "$root/said"; exit 1; }
  [[ -s $root/github/output ]] || { say "$name: it has no output"; exit 1; }
  mapfile -t variables <"$root/github/env"
  mapfile -t steps < <(sed -n 's/^ *- run: //p' "$workflow")
  ((${#steps[@]})) || { say "$workflow has no step"; exit 1; }
  for step in "${steps[@]}"; do
    say "$name: $step"
    inside env "${variables[@]}" bash -euc "cd /ramjet/.github/actions/setup-ramjet/examples/$name; $step"
  done
done
say "all good"
