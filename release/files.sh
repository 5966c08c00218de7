#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# files.sh DIR VERSION TIME: makes what archives and packages of a release have beside the command, below DIR: manual
# pages, completions, licences, and the libraries for C programs. VERSION is without a v, TIME in seconds.
#
# Needs what release/packages.txt names. With RAMJET_RELEASE_ARCHITECTURES=amd64 only those libraries are built.
set -euo pipefail
[[ $# == 3 ]] || { echo "usage: $0 DIR VERSION TIME" >&2; exit 2; }
cd "$(dirname "$0")/.."
out=$1 version=$2 time=$3
read -ra architectures <<<"${RAMJET_RELEASE_ARCHITECTURES:-amd64 arm64}"
declare -A triple=([amd64]=x86_64-linux-gnu [arm64]=aarch64-linux-gnu)

rm -rf "$out"
share=$out/share
mkdir -p "$share/man/man1" "$share/doc/ramjet" "$share/bash-completion/completions" "$share/zsh/site-functions" \
	"$share/fish/vendor_completions.d" "$out/debian"

ramjet=$(mktemp -d)
trap 'rm -rf "$ramjet"' EXIT # the sysroots, too
CGO_ENABLED=0 go build -trimpath -ldflags="-X=github.com/ramjet-rdma/ramjet/internal/core/softdev.release=v$version" -o "$ramjet/ramjet" ./cmd/ramjet
"$ramjet/ramjet" man "$share/man/man1"
gzip -9n "$share"/man/man1/*
"$ramjet/ramjet" completion bash >"$share/bash-completion/completions/ramjet"
"$ramjet/ramjet" completion zsh >"$share/zsh/site-functions/_ramjet"
"$ramjet/ramjet" completion fish >"$share/fish/vendor_completions.d/ramjet.fish"
cp LICENSE README.md CHANGELOG.md "$share/doc/ramjet"
mkdir "$share/doc/ramjet/prometheus"
cp metrics/{alertmanager.yml,alerts.yml,dashboard.json,ramjet-export.service} "$share/doc/ramjet/prometheus"
release/licences.sh | gzip -9n >"$share/doc/ramjet/THIRD_PARTY.gz"

# What Debian's packages have in /usr/share/doc.
cat >"$out/debian/copyright" <<EOF
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: ramjet
Source: https://github.com/ramjet-rdma/ramjet
Comment: THIRD_PARTY.gz has the licences of the Go modules that are linked.

Files: *
Copyright: 2026 the authors of Ramjet
License: Apache-2.0
 On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.
EOF
gzip -9nc CHANGELOG.md >"$out/debian/changelog.gz"
printf 'ramjet (%s) unstable; urgency=medium\n\n  * changelog.gz says what is new.\n\n -- %s  %s\n' "${version/-/\~}" \
	'Ramjet developers <ramjet-rdma@users.noreply.github.com>' "$(date -Rud "@$time")" |
	gzip -9n >"$out/debian/changelog.Debian.gz"
cat >"$out/lintian" <<'EOF'
# Made from the project's own tree, not uploaded to Debian.
ramjet: initial-upload-closes-no-bugs
EOF

for architecture in "${architectures[@]}"; do
	lib=$out/$architecture/lib/ramjet
	release/sysroot.sh "$ramjet/$architecture" "$architecture"
	CC=$ramjet/$architecture/cc GOARCH=$architecture GOFLAGS="$(go env GOFLAGS) -trimpath" RAMJET_VERSION=v$version cabi/build.sh "$lib"
	"${triple[$architecture]}-strip" --strip-unneeded "$lib"/lib*.so*
	chmod 644 "$lib"/lib*.so*
done
