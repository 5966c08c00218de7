#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# go-redis's own tests of one server over package valkey's Dialer, against valkey-server with RDMA under ramjet run: over RoCEv2,
# iWARP and shared memory, and over TCP. They are written for Redis with Lua and modules, so that some fail on any transport:
# those that pass over TCP have to pass over RDMA. The few that dial for themselves use TCP in each run.
#
#   goredis.sh [FOLDER [KIND...]]     FOLDER is that of valkey.sh, which has built Valkey there: ~/.cache/ramjet-valkey by default
set -euo pipefail
folder=${1:-$HOME/.cache/ramjet-valkey}
kinds=("${@:2}")
((${#kinds[@]})) || kinds=(roce iwarp shm)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ -x $folder/valkey/src/valkey-server ]] || { echo "goredis.sh: no Valkey in $folder: run valkey.sh first" >&2; exit 1; }
# shellcheck source=interop/valkeyserver.sh
. "$here/valkeyserver.sh"

# The tests take their options from one function, and expect servers for clusters, which the tests of one server do not need.
source=$(cd "$root/valkey" && go list -m -f '{{.Dir}}' github.com/redis/go-redis/v9)
cp -r "$source" "$work/tests"
chmod -R u+w "$work/tests"
cd "$work/tests"
sed -i -e 's/^func redisOptions()/func tcpOptions()/' -e 's/if !RECluster {/if false {/' \
	-e 's/redisAddr = redisStackAddr/redisAddr = os.Getenv("SERVER")/' main_test.go
cat >rdma_test.go <<'GO'
package redis_test

import (
	"context"
	"net"
	"os"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/valkey"
	"github.com/redis/go-redis/v9"
)

var rdmaDialer *valkey.Dialer

func init() {
	if name := os.Getenv("RAMJET_DEVICE"); name != "" {
		dev, err := ramjet.Open(name)
		if err != nil {
			panic(err)
		}
		rdmaDialer = &valkey.Dialer{Device: dev}
	}
}

func redisOptions() *redis.Options {
	opt := tcpOptions()
	if rdmaDialer != nil {
		opt.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == redisAddr {
				addr = os.Getenv("RDMA_SERVER")
			}
			return rdmaDialer.DialContext(ctx, network, addr)
		}
	}
	return opt
}
GO
go mod edit -require github.com/ramjet-rdma/ramjet@v0.0.0 -require github.com/ramjet-rdma/ramjet/valkey@v0.0.0 \
	-replace "github.com/ramjet-rdma/ramjet=$root" -replace "github.com/ramjet-rdma/ramjet/valkey=$root/valkey"
go mod tidy >"$work/tidy" 2>&1 || { cat "$work/tidy" >&2; exit 1; }
go test -vet=off -c -o "$work/suite" .

# suite NAME DEVICE runs the tests, and leaves the names of those that failed in $work/NAME.failed.
suite() {
	SERVER=$address.1:$port RDMA_SERVER=$address.1:$((port + 1)) RAMJET_DEVICE=$2 REDIS_VERSION=7.2 "$work/suite" -test.run '^TestGinkgoSuite$' -test.timeout 15m \
		-ginkgo.no-color -ginkgo.seed 1 -ginkgo.skip 'cluster races' \
		-ginkgo.focus-file '/(commands|redis|pubsub|pipeline|tx|iterator|pool|race)_test.go' >"$work/$1.out" 2>&1 || true
	grep -a -o '^[A-Z]*! -- .*' "$work/$1.out" || { tail -n 50 "$work/$1.out" >&2; exit 1; } # it did not come to its end
	grep -a '^  \[FAIL\]' "$work/$1.out" | sort >"$work/$1.failed" || true
}
for kind in "${kinds[@]}"; do
	# The two ports differ: iWARP is over TCP.
	address=127.86.$((RANDOM % 200 + 20)) port=$((20000 + RANDOM % 10000))
	valkey_server "$kind:$address.1" "$((port + 1))" "$work/server" --port "$port" --bind "$address.1"
	if [[ ! -f $work/tcp.failed ]]; then
		echo "== TCP"
		suite tcp ''
	fi
	echo "== $kind"
	suite "$kind" "$kind:$address.2"
	if comm -13 "$work/tcp.failed" "$work/$kind.failed" | grep .; then
		echo "goredis.sh: these pass over TCP, and fail over $kind" >&2
		exit 1
	fi
done
echo "goredis.sh: all good"
