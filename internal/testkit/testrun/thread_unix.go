// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package testrun

// threadUse is empty: only Linux counts a thread's switches.
type threadUse struct{}

func ownThread() threadUse { return threadUse{} }
