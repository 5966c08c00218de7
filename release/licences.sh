#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# licences.sh: prints the licences of all that is linked into the command and into the libraries for C programs, on
# any system: Go's, and those of each module's files that concern it.
set -euo pipefail
cd "$(dirname "$0")/.."

linked() {
	for os in linux darwin freebsd windows; do
		GOOS=$os CGO_ENABLED=0 go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/ramjet
	done
	# Without cgo go list leaves out what only cgo has, so that no C compiler is needed: cabi adds no module.
	go list -deps -tags cabi -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cabi
}

# licence NAME FILES...
licence() {
	printf '%s\n%s\n\n' "$(printf '=%.0s' {1..80})" "$1"
	shift
	for file in "$@"; do
		tr -d '\r' <"$file"
		echo
	done
}

echo "Ramjet's command and libraries contain the following, under the licences that follow each name."
echo
licence "Go $(go env GOVERSION)" "$(go env GOROOT)/LICENSE" "$(go env GOROOT)/PATENTS"
linked | sort -u | while read -r module version dir; do
	mapfile -t files < <(find "$dir" -maxdepth 1 -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' -o -iname 'patents*' \) | sort)
	# Some have them in a folder: freetype's licenses, the LICENSES of others.
	mapfile -t -O "${#files[@]}" files < <(find "$dir" -mindepth 2 -maxdepth 2 -type f -ipath "$dir/licen[cs]es/*" | sort)
	((${#files[@]})) || { echo "$0: $module has no licence" >&2; exit 1; }
	licence "$module $version" "${files[@]}"
done
