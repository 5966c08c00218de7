#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check.sh: tries what build.sh has left in dist, as somebody would who installs it. It unpacks the package and the
# archives below a folder, and installs nothing on this machine. Needs Debian's ibverbs-utils, man-db, lintian,
# bash-completion, zsh, fish and, for arm64, qemu-user-static and gcc-aarch64-linux-gnu; a part whose program is missing
# is named at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
left_out=()

step() { printf '=== %s\n' "$*"; }
fail() { echo "check.sh: $*" >&2; exit 1; }
have() { command -v "$1" >/dev/null || { left_out+=("$2: there is no $1"); false; }; }
# want TEXT COMMAND...: the command succeeds and prints the text
want() {
	local text=$1 out
	shift
	out=$(timeout 300 "$@" 2>&1 </dev/null) || fail "$*: status $?: $out"
	[[ $out == *"$text"* ]] || fail "$*: no $text in: $out"
}

version=$(sed -n 's/.*"version":"\([^"]*\)".*/\1/p' dist/metadata.json)
[[ -n $version ]] || fail "dist/metadata.json has no version"

step checksums
(cd dist && sha256sum --quiet -c SHA256SUMS)

step the package, amd64
deb=$work/deb
dpkg-deb -x dist/ramjet_*_amd64.deb "$deb"
! find "$deb" -path "$deb/usr/lib/ramjet" -prune -o -name 'lib*.so*' -print | grep . || fail "libraries where programs find them by themselves"
ramjet=$deb/usr/bin/ramjet
want "v$version" "$ramjet" --version
want 'compared every byte: no error' "$ramjet" demo
for library in "$deb"/usr/lib/ramjet/*; do
	needs=$(objdump -T "$library" | grep -o 'GLIBC_[0-9.]*' | sort -V | tail -n 1)
	[[ $(printf '%s\nGLIBC_2.31\n' "$needs" | sort -V | tail -n 1) == GLIBC_2.31 ]] || fail "$library needs $needs, the package says 2.31"
done
if have ibv_devices "C programs"; then
	want 'roce0 ' env -u RAMJET_LIBS "$ramjet" run -d roce:127.0.0.11 -- ibv_devices
fi

step manual pages
for page in "$deb"/usr/share/man/man1/*; do
	if have man "manual pages"; then
		warnings=$(LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)
		[[ -z $warnings ]] || fail "$page: $warnings"
	fi
done
(($(find "$deb/usr/share/man" -name '*.gz' | wc -l) >= 15)) || fail "too few manual pages"

step completion
if [[ -e /usr/share/bash-completion/bash_completion ]]; then
	# complete_bash WORDS...: what bash offers for the last word
	complete_bash() {
		# shellcheck disable=SC2016 # that shell expands it
		PATH=$deb/usr/bin:$PATH timeout 60 bash -c '
			source /usr/share/bash-completion/bash_completion
			source "$1"
			shift
			COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_TYPE=9 COMP_KEY=9
			COMP_POINT=${#COMP_LINE}
			__start_ramjet
			printf "%s\n" "${COMPREPLY[@]}"' bash "$deb/usr/share/bash-completion/completions/ramjet" "$@"
	}
	offers() {
		local text=$1 offered
		shift
		offered=$(complete_bash "$@" 2>/dev/null) || fail "completing $* fails"
		[[ $offered == *"$text"* ]] || fail "bash offers no $text for: $*"
	}
	offers demo ramjet de
	offers 127.0.0.1 ramjet devices roce:127. # bash takes a colon for the end of a word
	offers RETRY_EXC_ERR ramjet explain IBV_WC_RETRY
	offers lat ramjet perf send ''
else
	left_out+=("completion in bash: there is no bash-completion")
fi
if have zsh "completion in zsh"; then
	zsh -n "$deb/usr/share/zsh/vendor-completions/_ramjet"
fi
if have fish "completion in fish"; then
	offered=$(PATH=$deb/usr/bin:$PATH fish --no-config -c "source $deb/usr/share/fish/vendor_completions.d/ramjet.fish; complete -C 'ramjet perf send '")
	[[ $'\n'$offered == *$'\n'lat* ]] || fail "fish offers no lat for ramjet perf send"
fi

step licences
zcat "$deb/usr/share/doc/ramjet/THIRD_PARTY.gz" >"$work/licences"
go version -m "$ramjet" | awk '$1 == "dep" { print $2, $3 }' | while read -r module; do
	grep -qxF "$module" "$work/licences" || fail "THIRD_PARTY has no licence of $module"
done

if have lintian lintian; then
	step lintian
	lintian --fail-on error --tag-display-limit 0 dist/ramjet_*_amd64.deb
fi

step the archive, amd64
mkdir "$work/tar"
tar -xzf "dist/ramjet_${version}_linux_amd64.tar.gz" --strip-components=1 -C "$work/tar"
want "v$version" "$work/tar/bin/ramjet" --version
if have ibv_devices "C programs"; then
	want 'roce0 ' env -u RAMJET_LIBS "$work/tar/bin/ramjet" run -d roce:127.0.0.11 -- ibv_devices
fi

step the static command, amd64
mkdir "$work/static"
tar -xzf "dist/ramjet_${version}_linux_amd64_static.tar.gz" --strip-components=1 -C "$work/static"
if unshare --map-root-user --mount true 2>/dev/null; then
	# In a root with nothing but the command and /proc, as a container has it: nothing that it needs is elsewhere.
	mkdir "$work/static/proc" "$work/static/tmp"
	# shellcheck disable=SC2016 # that shell expands it
	want 'compared every byte: no error' unshare --map-root-user --mount --pid --fork \
		sh -euc 'mount -t proc proc "$1/proc"; exec chroot "$1" /bin/ramjet demo' sh "$work/static"
else
	left_out+=("the static command by itself: namespaces are not allowed")
fi

if have qemu-aarch64-static arm64 && have aarch64-linux-gnu-gcc arm64; then
	step arm64, emulated
	mkdir "$work/arm64" "$work/arm64static"
	tar -xzf "dist/ramjet_${version}_linux_arm64.tar.gz" --strip-components=1 -C "$work/arm64"
	tar -xzf "dist/ramjet_${version}_linux_arm64_static.tar.gz" --strip-components=1 -C "$work/arm64static"
	emulated=(qemu-aarch64-static -L /usr/aarch64-linux-gnu)
	want "v$version" "${emulated[@]}" "$work/arm64/bin/ramjet" --version
	want "v$version" "${emulated[@]}" "$work/arm64static/bin/ramjet" --version
	want 'roce:127.0.0.1' "${emulated[@]}" "$work/arm64/bin/ramjet" devices
	# The libraries, with a program that does what ibv_devices does. `ramjet run` would have the system run it.
	aarch64-linux-gnu-gcc -x c - -x none -o "$work/devices" "$work/arm64/lib/ramjet/libibverbs.so.1" -Wl,--allow-shlib-undefined <<-'EOF'
		#include <infiniband/verbs.h>
		#include <stdio.h>
		int main(void)
		{
			int n;
			struct ibv_device **list = ibv_get_device_list(&n);
			for (int i = 0; i < n; i++) {
				struct ibv_context *context = ibv_open_device(list[i]);
				struct ibv_port_attr port;
				if (!context || ibv_query_port(context, 1, &port))
					return 1;
				printf("%s port state %s\n", ibv_get_device_name(list[i]), ibv_port_state_str(port.state));
				ibv_close_device(context);
			}
			return 0;
		}
	EOF
	want 'roce0 port state' "${emulated[@]}" -E "LD_LIBRARY_PATH=$work/arm64/lib/ramjet" -E RAMJET_DEVICES=roce:127.0.0.11 "$work/devices"
fi

if ((${#left_out[@]})); then
	echo "left out:"
	printf '  %s\n' "${left_out[@]}" | sort -u
fi
echo "all that was tried is good"
