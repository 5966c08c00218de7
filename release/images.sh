#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# images.sh NAME           builds the images NAME:VERSION, NAME:VERSION-c-programs and NAME-kubelet:VERSION for amd64,
#                          from what build.sh has left in dist, and with Go
# images.sh NAME publish   builds and pushes them, for amd64 and arm64; needs docker buildx, or podman 5, and for
#                          arm64 an emulator (Debian: qemu-user-static)
#
# CONTAINER_TOOL is docker or podman; BASE another image than debian:bookworm-slim for C programs.
set -euo pipefail
[[ $# -ge 1 && ${2-publish} == publish ]] || { echo "usage: $0 NAME [publish]" >&2; exit 2; }
cd "$(dirname "$0")/.."
name=$1 publish=${2-}
tool=${CONTAINER_TOOL:-$(command -v docker podman | head -n 1)}
[[ -n $tool ]] || { echo "$0: there is neither docker nor podman" >&2; exit 1; }
[[ -f dist/metadata.json ]] || { echo "$0: there is no dist: run release/build.sh first" >&2; exit 1; }
version=$(sed -n 's/.*"version":"\([^"]*\)".*/\1/p' dist/metadata.json)
architectures=(amd64)
[[ -z $publish ]] || architectures=(amd64 arm64)

declare -A names=([static]=$name:$version [c-programs]=$name:$version-c-programs [kubelet]=$name-kubelet:$version)
for target in static c-programs kubelet; do
	tag=${names[$target]}
	tags=()
	for architecture in "${architectures[@]}"; do
		context=$(mktemp -d)
		trap 'rm -rf "$context"' EXIT
		cp dist/ramjet_*_"$architecture".deb "$context/ramjet.deb"
		mkdir "$context/root"
		tar -xzf "dist/ramjet_${version}_linux_${architecture}_static.tar.gz" --strip-components=1 -C "$context/root"
		tar -C "$context/root" -czf "$context/static.tar.gz" bin share/doc
		mkdir "$context/kubelet"
		[[ $target != kubelet ]] || release/kubelet.sh "$architecture" "$context/kubelet"
		"$tool" build --platform "linux/$architecture" --target "$target" --build-arg ARCHIVE=static.tar.gz \
			--build-arg PACKAGE=ramjet.deb ${BASE:+--build-arg "BASE=$BASE"} -t "$tag-$architecture" -f release/Dockerfile "$context"
		rm -rf "$context"
		tags+=("$tag-$architecture")
	done
	if [[ -n $publish ]]; then
		for t in "${tags[@]}"; do "$tool" push "$t"; done
		"$tool" manifest create "$tag" "${tags[@]}"
		"$tool" manifest push "$tag"
	else
		"$tool" tag "${tags[0]}" "$tag"
	fi
	echo "$tag"
done
