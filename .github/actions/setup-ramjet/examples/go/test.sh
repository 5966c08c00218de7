#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
set -eu
go test -count=1 ./...
