# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# Sourced by nvme.sh and nvmetcp.sh, with $here and $folder: what the guest's image lacks for NVMe, from Debian's packages, of
# the mirror $PEERVM_MIRROR, by default the one that this machine's apt uses. It is kept in $folder.

image=$("$here/peervm/build.sh")
release=$(sed -n 's/^linux //p' "$image/manifest")

# options are those for an apt of the guest's Debian, which knows no installed package.
options=(-q -o "Dir::Etc::sourcelist=$folder/apt/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$folder/apt/lists"
	-o "Dir::Cache=$folder/apt/cache" -o "Dir::State::status=$folder/apt/status" -o APT::Sandbox::User=root)

# update fetches the lists of packages.
update() {
	rm -rf "$folder/apt"
	mkdir -p "$folder"/apt/lists/partial "$folder/apt/cache"
	: >"$folder/apt/status"
	local mirror
	mirror=$("$here/mirror.sh" PEERVM_MIRROR)
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$folder/apt/sources.list"
	apt-get "${options[@]}" update
}

# fetch_kernel unpacks the package of the guest's kernel into $folder/kernel.
fetch_kernel() {
	rm -rf "$folder/kernel"
	(cd "$folder/apt" && apt-get "${options[@]}" download "linux-image-$release" && dpkg -x linux-image-*.deb "$folder/kernel")
	rm "$folder"/apt/*.deb
	ln -s usr/lib "$folder/kernel/lib"
	depmod -b "$folder/kernel" "$release"
}

# fetch_tools puts nvme-cli, fio and their libraries into $folder/tools. The guest has the C library.
fetch_tools() {
	rm -rf "$folder/tools" "$folder/root"
	mkdir "$folder/tools"
	apt-get "${options[@]}" install --simulate --no-install-recommends fio nvme-cli | awk '$1 == "Inst" {print $2}' |
		grep -E '^(fio|nvme-cli|lib)' | (cd "$folder/apt" && xargs apt-get "${options[@]}" download)
	for deb in "$folder"/apt/*.deb; do dpkg -x "$deb" "$folder/root"; done
	rm "$folder"/apt/*.deb
	local libraries=$folder/root/usr/lib/x86_64-linux-gnu path
	for path in "$folder/root/usr/bin/fio" "$folder/root/usr/sbin/nvme"; do
		"$libraries/ld-linux-x86-64.so.2" --library-path "$libraries:$libraries/ceph" --list "$path" |
			awk '$3 ~ /^\// && $1 !~ /^lib(c|m)\.so/ {print $3}' | xargs cp -Lt "$folder/tools"
		cp "$path" "$folder/tools/"
	done
	rm -r "$folder/root"
}

# guest_folder FOLDER MODULE...: fills a folder for pair.sh: the tools, and the modules with what they depend on, in the order of
# FOLDER/modules/order. Its guest.sh has to source nvmeguest.
guest_folder() {
	if [[ ! -f $folder/kernel/lib/modules/$release/modules.dep || ! -x $folder/tools/nvme ]]; then
		update
		fetch_kernel
		fetch_tools
	fi
	local to=$1 module path name
	mkdir -p "$to/modules"
	cp -r "$folder/tools" "$here/peervm/words.sh" "$to/"
	for module in "${@:2}"; do
		modprobe -d "$folder/kernel" -S "$release" --ignore-install --show-depends "$module"
	done | awk '$1 == "insmod" && !seen[$2]++ {print $2}' | while read -r path; do
		name=$(basename "${path%.xz}")
		xz -dc "$path" >"$to/modules/$name"
		echo "$name" >>"$to/modules/order"
	done
	cat >"$to/nvmeguest" <<'GUEST'
python3 -m http.server 7471 >/dev/null 2>&1 & # by which pair.sh knows that the guest is alive
while read -r module; do
	insmod "/peer/modules/$module" 2>/dev/null || true # the image has some of them, loaded already
done </peer/modules/order
# tool NAME ARG... runs a program that the image lacks.
tool() {
	name=$1
	shift
	LD_LIBRARY_PATH=/peer/tools "/peer/tools/$name" "$@"
}
GUEST
}
