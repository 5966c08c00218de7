// SPDX-License-Identifier: Apache-2.0

package filecopy

import (
	"errors"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// The server cannot write any further in the middle of a file, which a limit on the size of
// files stands for.
func TestServerFails(t *testing.T) {
	eachWay(t, func(t *testing.T) {
		b := newBench(t)
		c := b.dial()
		path, _ := b.source("file", 24*testSegment)
		next, data := b.source("next", 10)

		signal.Ignore(syscall.SIGXFSZ)
		defer signal.Reset(syscall.SIGXFSZ)
		var old syscall.Rlimit
		b.ok(syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old))
		limit := old
		limit.Cur = 12*testSegment + 5
		b.ok(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
		defer syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old)

		_, err := c.Put(b.ctx, path, "file", nil)
		if e := (*ServerError)(nil); !errors.As(err, &e) || !strings.Contains(err.Error(), "file too large") {
			t.Error(err)
		}
		_, err = c.Put(b.ctx, next, "next", nil)
		b.ok(err)
		b.same(next, "next", data)

		b.ok(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old))
		got, err := c.Put(b.ctx, path, "file", nil)
		b.ok(err)
		if noMaps && got.Kept != 12*testSegment {
			t.Errorf("%d bytes were kept", got.Kept)
		}
		b.noPartial("file")
	})
}
