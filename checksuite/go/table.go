// SPDX-License-Identifier: Apache-2.0

//go:build linux

package programs

// All are the programs.
var All = []Program{
	{"send-modified", "pieces", sendModifiedPieces},
	{"send-modified", "inline", sendModifiedInline},
	{"send-modified", "goroutine", sendModifiedGoroutine},
	{"receive-touched", "repost", receiveTouchedRepost},
	{"receive-touched", "srq", receiveTouchedSRQ},
	{"read-touched", "list", readTouchedList},
	{"read-touched", "atomic", readTouchedAtomic},
	{"memory-freed", "posted", memoryFreedPosted},
	{"memory-freed", "reachable", memoryFreedReachable},
	{"region-in-use", "receive", regionInUseReceive},
	{"region-in-use", "rereg", regionInUseRereg},
	{"key-in-use", "write", keyInUseWrite},
	{"key-in-use", "window", keyInUseWindow},
	{"foreign-pd", "local", foreignPDLocal},
	{"foreign-pd", "remote", foreignPDRemote},
	{"atomic-alignment", "remote", atomicAlignmentRemote},
	{"atomic-alignment", "local", atomicAlignmentLocal},
}
