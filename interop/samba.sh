# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# Sourced by smb.sh and smbguest.sh: Samba, the one that is installed, or from the packages that this machine's apt knows,
# unpacked in $folder. Needs root, as which smbd runs. Whoever sources it kills what is in $running in the end.

# samba_fetch unpacks Samba and what it needs besides into $folder/samba, if it is not installed.
samba_fetch() {
	[[ ! -x /usr/sbin/smbd && ! -x $folder/samba/usr/sbin/smbd ]] || return 0
	rm -rf "$folder/debs" "$folder/samba"
	mkdir "$folder/debs"
	apt-get install --simulate --no-install-recommends samba | awk '$1 == "Inst" {print $2}' |
		(cd "$folder/debs" && xargs apt-get -q -o APT::Sandbox::User=root download)
	for deb in "$folder"/debs/*.deb; do dpkg -x "$deb" "$folder/samba"; done
	rm -rf "$folder/debs"
}

# samba PORT SIGNING: starts smbd with a share files in $work/SIGNING/share, for guests, and for root with password secret.
samba() {
	local at=$work/$2 root='' environment=(env) libraries
	if [[ ! -x /usr/sbin/smbd ]]; then
		root=$folder/samba
		libraries=$(dirname "$(find "$root" -name 'libsmbconf.so*' | head -n 1)")
		environment=(env "LD_LIBRARY_PATH=$libraries:$libraries/samba")
	fi
	mkdir -p "$at"/{state,cache,lock,private,pid,ncalrpc,share}
	cat >"$at/smb.conf" <<-CONF
	[global]
	server role = standalone server
	smb ports = $1
	server signing = $2
	interfaces = 127.0.0.1
	bind interfaces only = yes
	map to guest = Bad User
	state directory = $at/state
	cache directory = $at/cache
	lock directory = $at/lock
	private dir = $at/private
	pid directory = $at/pid
	ncalrpc dir = $at/ncalrpc
	log file = $at/log
	load printers = no
	disable spoolss = yes
	[files]
	path = $at/share
	guest ok = yes
	read only = no
	force user = root
	CONF
	printf 'secret\nsecret\n' | "${environment[@]}" "$root/usr/bin/smbpasswd" -c "$at/smb.conf" -a -s root
	# In a session of its own: at its end smbd kills its process group.
	setsid "${environment[@]}" "$root/usr/sbin/smbd" --foreground --no-process-group \
		--configfile="$at/smb.conf" >"$at/out" 2>&1 &
	running+=($!)
	for _ in {1..300}; do
		(: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return
		sleep 0.1
	done
	cat "$at/out" "$at/log" >&2
	return 1
}
