// SPDX-License-Identifier: Apache-2.0

package memory

import "github.com/ramjet-rdma/ramjet/verbs"

// Persistable returns why a region of buf could not keep the promise of a FLUSH to persistence:
// that the data survives a loss of power (IBTA annex A19). Memory that is mapped from a file can,
// because Persist writes it there.
func Persistable(buf []byte) error {
	if len(buf) == 0 || fileBacked(buf) {
		return nil
	}
	return &verbs.OpError{Op: "reg_mr", Err: verbs.ErrNotSupported,
		Detail: "FlushPersistent needs memory that is mapped, shared, from a file that is not itself in memory"}
}
