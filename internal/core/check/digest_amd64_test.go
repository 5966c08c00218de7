// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package check

import "golang.org/x/sys/cpu"

func init() {
	if cpu.X86.HasAES {
		digests["rounds of 16 bytes"] = aesDigest
	}
}
