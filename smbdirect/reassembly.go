// SPDX-License-Identifier: Apache-2.0

package smbdirect

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/smbdirect/wire"
)

// reassembly puts fragments together (MS-SMBD 3.1.5.8). It holds fragments that have arrived; announced ones take no
// memory.
type reassembly struct {
	limit     int    // bytes of the longest message
	message   []byte // so far
	remaining int    // bytes that are missing
}

// add takes the data of a Data Transfer message. It returns the upper-layer message that is whole with it.
func (r *reassembly) add(t *wire.Transfer, data []byte) (message []byte, err error) {
	rest := int64(t.RemainingDataLength)
	total := int64(len(data)) + rest
	switch {
	case len(data) == 0 && rest == 0:
		return nil, nil // credits only: they may come between fragments
	case len(data) == 0:
		return nil, fmt.Errorf("%w: a fragment without data, and %d bytes to follow", ErrProtocol, rest)
	case total > int64(r.limit):
		return nil, fmt.Errorf("%w: %d bytes in fragments, at most %d are taken", ErrProtocol, total, r.limit)
	case r.remaining > 0 && total != int64(r.remaining):
		return nil, fmt.Errorf("%w: a fragment of %d bytes with %d to follow, where %d are missing", ErrProtocol,
			len(data), rest, r.remaining)
	}
	r.message = append(r.message, data...)
	if r.remaining = int(rest); rest > 0 {
		return nil, nil
	}
	message, r.message = r.message, nil
	return message, nil
}
