#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# mirror.sh VARIABLE: prints the Debian mirror that the variable names, or else the one that this machine's apt uses.
set -euo pipefail
mirror=${!1-}
# shellcheck disable=SC2016 # apt's own variables
[[ -n $mirror ]] || mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' |
	awk '$2 !~ /security|updates|backports/ && $1 ~ /debian\/?$/ { print $1; exit }')
[[ -n $mirror ]] || { echo "apt here has no Debian mirror: set $1" >&2; exit 4; }
echo "$mirror"
