#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# setup.sh: what the action does. Builds the command and the libraries for C programs from this checkout, and tells the
# workflow's next steps where they are. Needs Go, and Debian's or Ubuntu's packages.
#
#   PACKAGES          packages to install besides
#   RUNNER_TOOL_CACHE where to put the result; GITHUB_PATH, GITHUB_ENV, GITHUB_OUTPUT: files for the next steps
set -euo pipefail
for variable in GITHUB_PATH GITHUB_ENV GITHUB_OUTPUT; do
	[[ -n ${!variable-} ]] || { echo "$0: $variable is not set: it runs in a step of a workflow" >&2; exit 2; }
done
command -v go >/dev/null || { echo "$0: there is no go: the action's first step installs it" >&2; exit 1; }
command -v apt-get >/dev/null || { echo "$0: there is no apt-get: use a runner or container with Debian or Ubuntu" >&2; exit 1; }
as_root() { if [[ $(id -u) == 0 ]]; then "$@"; else sudo "$@"; fi; }

read -ra packages <<<"${PACKAGES-}"
as_root apt-get update -q
as_root env DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends \
	gcc libc6-dev libibverbs-dev librdmacm-dev "${packages[@]}"

source=$(cd "$(dirname "$0")/../../.." && pwd)
to=${RUNNER_TOOL_CACHE:-$HOME/.local}/ramjet
mkdir -p "$to/bin" "$to/lib/ramjet"
(cd "$source" && CGO_ENABLED=0 go build -trimpath -o "$to/bin/ramjet" ./cmd/ramjet)
"$source/cabi/build.sh" "$to/lib/ramjet"
echo "$to/bin" >>"$GITHUB_PATH"
echo "RAMJET_LIBS=$to/lib/ramjet" >>"$GITHUB_ENV"
echo "libs=$to/lib/ramjet" >>"$GITHUB_OUTPUT"
"$to/bin/ramjet" run --libs "$to/lib/ramjet" -- "$to/bin/ramjet" devices
