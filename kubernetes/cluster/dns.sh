#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# dns.sh FILE: builds CoreDNS from its Go module, with the plugins that a cluster's names need. It is apart from build.sh,
# so that another version does not build Kubernetes again.
set -euo pipefail
version=1.13.1
folder=$(mktemp -d "${TMPDIR:-/tmp}/ramjet-dns.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo "cluster: building CoreDNS $version"
printf 'module build.invalid/coredns\n\ngo 1.26.0\n\nrequire github.com/coredns/coredns v%s\n' "$version" >go.mod
cat >main.go <<'GO'
// Command coredns serves the names of a cluster.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() { coremain.Run() }
GO
CGO_ENABLED=0 go build -mod=mod -trimpath -ldflags='-s -w' -o "$1" .
