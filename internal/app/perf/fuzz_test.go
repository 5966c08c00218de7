// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"errors"
	"net"
	"testing"
)

// FuzzMessages takes the messages that may come over a control connection: it is refused, or a measurement that can be
// made.
func FuzzMessages(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	for _, s := range []string{"", "\n", "{", `{"ready":true}`, `{"job":{"version":3}}`,
		`{"error":"no"}` + "\n" + `{"done":5}`, `{"endpoint":{}}`,
		`{"job":{"version":3,"config":{"op":"write","size":4096,"qps":1,"depth":16,"iterations":10}}}`} {
		f.Add([]byte(s + "\n"))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		here, there := net.Pipe()
		defer here.Close()
		x := newSession(here, nil)
		go func() {
			there.Write(b)
			there.Close()
		}()
		enough := errors.New("enough")
		for {
			m, err := x.expect(t.Context())
			if errors.Is(err, errPeerGone) {
				return
			}
			if err != nil || m.Job != nil && m.Job.Baseline != nil {
				continue
			}
			if err := x.serveJob(t.Context(), m.Job,
				Options{Accept: func(c Config) error { return enough }}); err == nil {
				t.Error("a measurement has been made without a device")
			}
		}
	})
}
