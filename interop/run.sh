#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [-m MTU] [-t SECONDS] [-p CAPTURE.pcap] [-P CAPTURE.pcap] [-v] [-- TEST_FLAG...]
#
# Runs the interop tests: boots the peer machine once and gives the compiled tests its
# link. The options are pair.sh's; what follows -- goes to the tests, as "-test.run=TestRC"
# or "-test.v". Tests that hang end a minute before pair.sh would end them, and Go says which
# one it was and where its goroutines are. Needs root.
#
# Without flags of tests, these run as well, in guests of their own at the same time: the test that deletes the guest's device, and
# package kernel's tests with the conformance suite on kernel:rxe0 and on kernel:siw0 (kernel.sh), and commands and
# gRPC on these devices (kernelcommands.sh).
#
# A guest whose kernel stops, or whose rxe does not even connect to itself any more, is booted again, once, and
# all tests run again: what they said until then says nothing of Ramjet.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
options=() captures=() limit=3000 # pair.sh's
while getopts m:t:p:P:v option; do
  case $option in
    v) options+=(-v) ;;
    t) limit=$OPTARG options+=(-t "$OPTARG") ;;
    [pP]) captures+=("-$option" "$OPTARG") ;;
    \?) exit 2 ;;
    *) options+=("-$option" "$OPTARG") ;;
  esac
done
shift $((OPTIND - 1))

folder=$(mktemp -d) # the guest's, with the tests, which are agents there
trap 'rm -rf "$folder" "$folder.others"' EXIT
cp "$here"/guest/* "$folder"
binary=$folder/interop.test
(cd "$here" && CGO_ENABLED=0 go test -c -tags interop -o "$binary" .)
cd "$here" # as go test does
# shellcheck disable=SC2317 # called by twice
pair() { "$here/peervm/pair.sh" "${options[@]}" "${captures[@]}" "$folder" "$binary" "-test.timeout=$((limit > 120 ? limit - 60 : limit / 2))s" "$@"; }
# twice runs a command again if its guest has stopped.
twice() {
  local status=0
  "$@" || status=$?
  if [[ $status == 5 ]]; then
    echo "run.sh: once more, as the guest had stopped" >&2
    status=0
    "$@" || status=$?
  fi
  return "$status"
}
# others are the guests of their own, one after another.
others() {
  local status=0 captures=() # which are of the first guest
  INTEROP_ALONE=1 twice pair -test.run='^TestKernelDeleted$' || status=$?
  for device in rxe0 siw0; do
    twice "$here/kernel.sh" "$device" || status=$?
  done
  twice "$here/kernelcommands.sh" || status=$?
  return "$status"
}
beside=''
if (($# == 0)); then
  others >"$folder.others" 2>&1 &
  beside=$!
fi
status=0
twice pair "$@" || status=$?
if [[ -n $beside ]]; then
  wait "$beside" || status=$?
  cat "$folder.others"
fi
exit "$status"
