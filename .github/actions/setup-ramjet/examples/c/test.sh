#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
set -eu
cc -Wall -Wextra -o write_test write_test.c -libverbs
ramjet run -d roce:127.0.0.11 -- ./write_test
