// SPDX-License-Identifier: Apache-2.0

package regcache_test

import (
	"github.com/ramjet-rdma/ramjet/regcache"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// A program sends buffers of its own choice. Buffers that it sends again are registered already.
func ExampleCache_Get() {
	send := func(qp *verbs.QP, cq *verbs.CQ, cache *regcache.Cache, buf []byte) error {
		h, err := cache.Get(buf)
		if err != nil {
			return err
		}
		defer h.Release() // after the completion
		if err := qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled,
			SGL: []verbs.SGE{h.SGE(0, len(buf))}}); err != nil {
			return err
		}
		var wcs [1]verbs.WC
		for cq.Poll(wcs[:]) == 0 {
		}
		return nil
	}
	_ = send
}
