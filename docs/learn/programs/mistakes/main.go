// SPDX-License-Identifier: Apache-2.0

// Mistakes makes one of the common mistakes, and prints the error that its author gets to see. Each has a file of its
// own.
package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

var mistakes = map[string]func(){
	"wrong-key":     wrongKey,
	"no-access":     noAccess,
	"no-receive":    noReceive,
	"small-receive": smallReceive,
	"unsignaled":    unsignaled,
	"early-reuse":   earlyReuse,
	"unaligned":     unaligned,
	"wrong-device":  wrongDevice,
	"wrong-gid":     wrongGID,
	"full-queue":    fullQueue,
	"middle-byte":   middleByte,
}

func main() {
	if len(os.Args) == 2 {
		if mistake := mistakes[os.Args[1]]; mistake != nil {
			mistake()
			return
		}
	}
	fmt.Fprintln(os.Stderr, "usage: mistakes", strings.Join(slices.Sorted(maps.Keys(mistakes)), "|"))
	os.Exit(2)
}
