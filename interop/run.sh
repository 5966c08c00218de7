#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [-m MTU] [-t SECONDS] [-p CAPTURE.pcap] [-P CAPTURE.pcap] [-v] [-- TEST_FLAG...]
#
# Runs the interop tests: boots the peer machine once and gives the compiled tests its
# link. The options are pair.sh's; what follows -- goes to the tests, as "-test.run=TestRC"
# or "-test.v". Needs root.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
options=()
while getopts m:t:p:P:v option; do
  case $option in
    v) options+=(-v) ;;
    \?) exit 2 ;;
    *) options+=("-$option" "$OPTARG") ;;
  esac
done
shift $((OPTIND - 1))

binary=$(mktemp)
trap 'rm -f "$binary"' EXIT
(cd "$here" && go test -c -tags interop -o "$binary" .)
cd "$here" # as go test does
"$here/peervm/pair.sh" "${options[@]}" "$here/guest" "$binary" -test.timeout=0 "$@"
