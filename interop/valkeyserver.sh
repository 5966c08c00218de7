# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Sourced by valkey.sh and goredis.sh, with $folder, in which valkey.sh has built Valkey: its programs on Ramjet's libraries.
# $work, with ramjet and lib in it, goes away at the end of the script, as do the servers that it has started.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
valkey=${folder:?}/valkey/src

work=$(mktemp -d)
servers=()
cleanup() {
	for pid in "${servers[@]}"; do kill "$pid" 2>/dev/null || true; done
	wait
	rm -rf "$work"
}
trap cleanup EXIT
(cd "$root" && CGO_ENABLED=0 go build -o "$work/ramjet" ./cmd/ramjet)
"$root/cabi/build.sh" "$work/lib" >/dev/null

# on DEVICE COMMAND... runs one of Valkey's programs on a device of Ramjet.
on() { "$work/ramjet" run --libs "$work/lib" -d "$1" -- "${@:2}"; }
# says FILE TEXT waits for a server.
says() {
	for _ in {1..300}; do
		! grep -qs "$2" "$1" || return 0
		sleep 0.2
	done
	echo "$(basename "$0"): a server does not say \"$2\":" >&2
	tail "$1" >&2
	exit 1
}
# valkey_server DEVICE PORT LOG [OPTION...] starts valkey-server on a device: OPTIONs are its own. The array check has flags of
# ramjet run's checker.
check=()
valkey_server() {
	"$work/ramjet" run --libs "$work/lib" "${check[@]}" -d "$1" -- "$valkey/valkey-server" --save '' --port 0 --rdma-bind "${1#*:}" \
		--rdma-port "$2" --protected-mode no --dir "$work" "${@:4}" >"$3" 2>&1 &
	servers+=($!)
	says "$3" "Ready to accept connections rdma"
}
