#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
set -eu
rustc --edition 2021 --test -o echo_test echo.rs
ramjet run -d roce:127.0.0.11 -- ./echo_test
