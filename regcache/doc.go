// SPDX-License-Identifier: Apache-2.0

// Package regcache keeps registered memory registered, for programs that send from and receive into
// buffers of their own choice.
//
// Registering takes longer the more pages there are. A program that uses the same buffers again and
// again registers them through a [Cache], which finds the region of a buffer, or of a part of one, in
// a fraction of a microsecond and allocates nothing:
//
//	cache, err := regcache.New(pd, verbs.LocalWrite, &regcache.Options{MaxBytes: 1 << 30})
//	h, err := cache.Get(buf)
//	...
//	err = qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{h.SGE(0, len(buf))}, Flags: verbs.Signaled})
//	... // the completion
//	h.Release()
//
// # Registration
//
// The cache registers exactly the buffer that [Cache.Get] is given. If that overlaps regions of the cache, one region
// of them all takes their place. So the regions of the cache do not overlap, and a peer that has the key of one reaches
// no byte that the program did not give to Get.
//
// # Eviction
//
// The cache ends regions beyond its budget: regions without a [Handle], the least recently released first. A region
// that is in use stays. So the cache is over its budget while the program uses more at once. If the system refuses to
// pin more, the cache lets go of regions until it does not.
//
// It ends regions of memory that the Go runtime has allocated when the program no longer refers to the memory. The
// cache does not keep it alive, see [verbs.Weak]; a handle does. There are two exceptions. Regions that are pinned
// ([verbs.Pinned] and its like) keep their memory alive, as do regions of devices without weak regions, until the
// budget or [Cache.Forget] ends them.
//
// It ends regions of memory that the program has mapped when the program calls [Cache.Forget], before it unmaps the
// memory. With [Options.WatchMapped] also when it unmaps it, see docs/memory.md.
package regcache
