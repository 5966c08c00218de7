// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// TestSwappedTerminate reads Terminates as siw of Linux 6.12 writes them, and writes the same.
func TestSwappedTerminate(t *testing.T) {
	for _, c := range []struct {
		hex        string
		cause      Cause
		swapped    bool
		ddp, rdmap int // bytes of headers
	}{
		{"11000300" + "03e8" + "c140000000040000000000001000", TaggedSTag, true, TaggedLen, 0},
		{"10000700" + "001c" + "41410000000000000001000000010000000000000007000000000000100000000064000000090000000000002000", ProtectionSTag, true, UntaggedLen, ReadRequestLen},
		{"21020300" + "0001" + "414300000000000000000000000100000000", UntaggedNoBuffer, true, UntaggedLen, 0},
		{"02020000", MPACRC, true, 0, 0},
		{"20020000", MPACRC, false, 0, 0},
		{"12020000", UntaggedNoBuffer, false, 0, 0},
		{"1100c000" + "03e8" + "c140000000040000000000001000", TaggedSTag, false, TaggedLen, 0},
	} {
		b, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		var x Terminate
		if !x.Decode(b) || x.Cause != c.cause || x.Swapped != c.swapped || len(x.DDP) != c.ddp ||
			len(x.RDMAP) != c.rdmap {
			t.Errorf("%s: %+v", c.hex, x)
		}
		if got := x.Append(nil); !bytes.Equal(got, b) {
			t.Errorf("%s comes back as %x", c.hex, got)
		}
	}
}
