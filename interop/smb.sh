#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Module smbdirect against Samba, over RoCEv2, iWARP and shared memory: Samba serves a share over TCP, ramjet-smb gateway takes
# SMB Direct for it, and ramjet-smb, whose client is go-smb2, copies a file to the share and back: signed, and not signed, through the RDMA channel.
#
#   smb.sh [FOLDER]     FOLDER keeps Samba's packages: ~/.cache/ramjet-smb by default
#
# Needs root, as which smbd runs.
set -euo pipefail
folder=${1:-$HOME/.cache/ramjet-smb}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$folder" && folder=$(cd "$folder" && pwd)

# shellcheck source=interop/samba.sh
. "$here/samba.sh"
samba_fetch

work=$(mktemp -d)
running=()
cleanup() {
	for pid in "${running[@]}"; do kill "$pid" 2>/dev/null || true; done
	wait
	rm -rf "$work"
}
trap cleanup EXIT
# fail MESSAGE FILE says what is wrong, and shows a file.
fail() {
	echo "smb.sh: $1" >&2
	cat "$2" >&2
	exit 1
}
(cd "$here/../smbdirect" && CGO_ENABLED=0 go build -o "$work/ramjet-smb" ./cmd/ramjet-smb)

port=$((20000 + RANDOM % 10000))
network=127.95.$((RANDOM % 256))
samba $port auto
samba $((port + 1)) mandatory
export RAMJET_SMB_PASSWORD=secret
head -c 5000001 /dev/urandom >"$work/file"
for kind in roce iwarp shm; do
	for signing in auto mandatory; do
		user=guest server=$port
		[[ $signing == auto ]] || { user=root; server=$((port + 1)); }
		: >"$work/gateway"
		"$work/ramjet-smb" gateway -d "$kind:$network.1" --server "127.0.0.1:$server" --allow "$network.2" >"$work/gateway" 2>&1 &
		gateway=$!
		running+=("$gateway")
		for _ in {1..300}; do grep -q listening "$work/gateway" && break; sleep 0.1; done
		flags=(-d "$kind:$network.2" -u "$user")
		"$work/ramjet-smb" put "${flags[@]}" "$work/file" "//$network.1/files/$kind"
		"$work/ramjet-smb" ls "${flags[@]}" "//$network.1/files" >"$work/list"
		grep -q " $kind$" "$work/list" || fail "$kind, signing $signing: the share does not list $kind:" "$work/list"
		"$work/ramjet-smb" get "${flags[@]}" "//$network.1/files/$kind" "$work/back"
		cmp "$work/file" "$work/back"
		cmp "$work/file" "$work/$signing/share/$kind"
		if [[ $signing == auto ]]; then # into folders, and a folder is no file
			mkdir -p "$work/auto/share/folder" "$work/there"
			chmod a+w "$work/auto/share/folder"
			"$work/ramjet-smb" put "${flags[@]}" "$work/file" "//$network.1/files/folder"
			"$work/ramjet-smb" get "${flags[@]}" "//$network.1/files/folder/file" "$work/there"
			cmp "$work/file" "$work/there/file"
			if "$work/ramjet-smb" get "${flags[@]}" "//$network.1/files/folder" "$work/no" 2>"$work/says" ||
				! grep -q 'is a folder' "$work/says"; then
				fail "$kind: get of a folder says:" "$work/says"
			fi
		fi
		kill -INT "$gateway"
		wait "$gateway"
		! grep -q ERROR "$work/gateway" || fail "$kind, signing $signing: the gateway has errors:" "$work/gateway"
		if [[ $signing == auto ]]; then # data have gone through the RDMA channel, both ways
			for moved in rdma_writes rdma_reads; do
				grep -q "$moved=[1-9]" "$work/gateway" || fail "$kind: no data have gone through the RDMA channel:" "$work/gateway"
			done
		fi
		echo "$kind, signing $signing: the same bytes come back"
	done
done
echo "smb.sh: all good"
