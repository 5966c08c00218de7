#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# build.sh              builds what a release of this tree would have, into dist; publishes nothing
# build.sh publish      the same of the tag that is checked out, and makes a draft of a release on GitHub of it
#
# Needs Go, on amd64, and Debian's packages that packages.txt names: apt-get install $(cat release/packages.txt).
# GORELEASER names a goreleaser that is installed already.
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1-} in
'') arguments=(--snapshot) ;;
publish) arguments=() ;;
*) echo "usage: $0 [publish]" >&2; exit 2 ;;
esac
# shellcheck disable=SC2016 # dpkg-query's own variables
missing=$(xargs -a release/packages.txt dpkg-query -W -f '${Package} ${Status}\n' 2>&1 | grep -v 'ok installed$' || true)
[[ -z $missing ]] || { echo "$0: not installed:"; echo "$missing"; exit 1; } >&2
# Every file gets the time of the commit. goreleaser knows it only of a checkout that has a remote.
RAMJET_TIME=$(git log -1 --format=%ct)
RAMJET_DATE=$(date -ud "@$RAMJET_TIME" +%Y-%m-%dT%H:%M:%SZ)
export RAMJET_TIME RAMJET_DATE
goreleaser=(go run github.com/goreleaser/goreleaser/v2@v2.15.4)
[[ -z ${GORELEASER-} ]] || goreleaser=("$GORELEASER")
"${goreleaser[@]}" release --clean "${arguments[@]}"
