#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
set -eu
ramjet run -d roce:127.0.0.11 -- python3 -m unittest -v test_write
