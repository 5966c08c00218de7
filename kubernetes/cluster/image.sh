#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# image.sh FOLDER NAME [PROGRAM]: writes an archive, as `docker load` and `ctr images import` read it, of an image whose
# root is the folder and whose entry point is the program.
set -euo pipefail
folder=$1 name=$2 program=${3-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -C "$folder" --numeric-owner --exclude=./dev/* -cf "$work/layer.tar" .
digest=$(sha256sum <"$work/layer.tar" | cut -d ' ' -f 1)
architecture=$(go env GOARCH)
path=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
cat >"$work/config.json" <<JSON
{"architecture": "$architecture", "os": "linux", "rootfs": {"type": "layers", "diff_ids": ["sha256:$digest"]},
 "config": {"Env": ["$path"]${program:+, \"Entrypoint\": [\"$program\"]}}}
JSON
cat >"$work/manifest.json" <<JSON
[{"Config": "config.json", "RepoTags": ["$name"], "Layers": ["layer.tar"]}]
JSON
tar -C "$work" -cf - manifest.json config.json layer.tar
