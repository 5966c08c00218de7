#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# kubelet.sh ARCHITECTURE FOLDER: writes what is in the image of ramjet-kubelet: the program, of this checkout, and
# what it gives containers, from the archives that build.sh has left in dist. Needs Go.
set -euo pipefail
[[ $# == 2 && -d $2 ]] || { echo "usage: $0 ARCHITECTURE FOLDER" >&2; exit 2; }
architecture=$1 folder=$(realpath "$2")
cd "$(dirname "$0")/.."
[[ -f dist/metadata.json ]] || { echo "$0: there is no dist: run release/build.sh first" >&2; exit 1; }
version=$(sed -n 's/.*"version":"\([^"]*\)".*/\1/p' dist/metadata.json)
archive=ramjet_${version}_linux_$architecture
(cd kubernetes && CGO_ENABLED=0 GOOS=linux GOARCH=$architecture go build -trimpath -ldflags='-s -w' -o "$folder/bin/ramjet-kubelet" ./cmd/ramjet-kubelet)
mkdir -p "$folder/opt/ramjet/lib"
# The command without a C library, as the images of pods have any.
tar -xzf "dist/${archive}_static.tar.gz" --strip-components=1 -C "$folder/opt/ramjet" "${archive}_static/bin/ramjet"
tar -xzf "dist/$archive.tar.gz" --strip-components=3 -C "$folder/opt/ramjet/lib" "$archive/lib/ramjet"
tar -xzf "dist/$archive.tar.gz" --strip-components=1 -C "$folder" "$archive/share/doc"
