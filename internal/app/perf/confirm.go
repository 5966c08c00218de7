// SPDX-License-Identifier: Apache-2.0

package perf

import "github.com/ramjet-rdma/ramjet/verbs"

// confirmLen is how many bytes the READs of confirm bring. The memory dst has room for them at its end.
const confirmLen = 1

// confirm returns when all that this side has sent has arrived, if completions do not say so. A WRITE over iWARP
// completes when TCP has it, and the peer carries out a READ after the WRITEs before it (RFC 5040 section 5.5).
func (s *side) confirm() error {
	if s.Op != Write || s.pd.Device().Query().Transport != verbs.TransportIWARP {
		return nil
	}
	for i := range s.streams {
		err := s.streams[i].qp.PostSend(&verbs.SendWR{
			ID:     uint64(i) << 32, // that of no message
			Op:     verbs.OpRead,
			Flags:  verbs.Signaled,
			SGL:    []verbs.SGE{s.dst.SGE(s.QPs*s.room(), confirmLen)},
			Remote: s.peer.Src,
		})
		if err != nil {
			return err
		}
	}
	for confirmed := 0; confirmed < s.QPs; {
		n := s.poll()
		for i := range s.wcs[:n] {
			if s.wcs[i].Op == verbs.WCRead {
				confirmed++
			}
		}
		if err := s.take(n); err != nil {
			return err
		}
		if s.halted(failed) {
			return s.failure()
		}
	}
	return nil
}
