// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"bytes"
	"testing"
)

func TestSession(t *testing.T) {
	s := Session{SSN: 0x1234, Function: SessionEnhancedInitiate, Private: []byte("abc")}
	want := []byte{0x12, 0x34, 0, 5, 'a', 'b', 'c'}
	b := s.Append(nil)
	if !bytes.Equal(b, want) {
		t.Fatalf("% x", b)
	}
	var got Session
	for n := range SessionLen {
		if got.Decode(b[:n]) {
			t.Errorf("%d bytes are taken", n)
		}
	}
	if got.Decode(make([]byte, SessionLen)) || got.Decode(append([]byte{0, 0, 0, 8}, b...)) ||
		got.Decode(make([]byte, SessionLen+MaxPrivateData+1)) {
		t.Error("a message that cannot be is taken")
	}
	if !got.Decode(b) || got.SSN != s.SSN || got.Function != s.Function || !bytes.Equal(got.Private, s.Private) {
		t.Errorf("%+v", got)
	}
	for f := SessionInitiate; f <= SessionEnhancedReject; f++ {
		frame, ok := (&Session{Function: f, Private: []byte{1}}).Frame()
		if f == SessionTerminate {
			if ok {
				t.Error("MPA has no such frame")
			}
			continue
		}
		if !ok || frame.Session() != f || frame.PrivateLen != 1 {
			t.Errorf("function %d is %+v, and that is function %d", f, frame, frame.Session())
		}
	}
}

func FuzzSession(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add([]byte{0, 0, 0, 1})
	f.Add([]byte{0, 9, 0, 4})
	f.Add([]byte{0xff, 0xff, 0, 6, 0x80, 3, 0x80, 4, 'h', 'i'})
	f.Fuzz(func(t *testing.T, b []byte) {
		var s Session
		if s.Decode(b) && !bytes.Equal(s.Append(nil), b) {
			t.Errorf("% x is %+v", b, s)
		}
	})
}
