// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"testing"
)

// Frames come out as they went in, however they were cut.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{}, byte(1))
	f.Add([]byte{0}, byte(1))
	f.Add([]byte{0, 0, 0, 1, 7, 0, 0, 0, 2, 8, 9}, byte(3))
	f.Add([]byte{0, 0, 0, 0}, byte(1))
	f.Add([]byte{0x81, 0, 0, 0}, byte(2))
	f.Add([]byte{0, 0xff, 0xff, 0xff, 1}, byte(200))
	f.Fuzz(func(t *testing.T, in []byte, piece byte) {
		const most = 100
		var fr Frame
		var out []byte
		for off := 0; off < len(in); {
			b := in[off:min(len(in), off+1+int(piece))]
			rest, whole, err := fr.Add(b, most)
			if err != nil {
				if head := in[len(out):]; !bytes.Equal(head[:4], fr.b[:4]) {
					t.Fatal(err)
				}
				return
			}
			off += len(b) - len(rest)
			if whole {
				out = append(out, fr.b...)
				if m := fr.Take(); len(m) == 0 || len(m) > most {
					t.Fatalf("a message of %d bytes", len(m))
				}
			}
		}
		if out = append(out, fr.b...); !bytes.Equal(out, in) {
			t.Fatalf("%x of %x", out, in)
		}
	})
}
