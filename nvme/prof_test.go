package nvme_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/nvme"
)

func BenchmarkAsyncProf(b *testing.B) {
	const size = 64 << 20
	for _, kind := range []string{"roce", "iwarp", "shm"} {
		for _, c := range []struct{ n, depth int }{{4096, 128}, {4096, 1}, {131072, 16}} {
			b.Run(kind+"/"+map[int]string{128: "4k128", 1: "4k1", 16: "128k16"}[c.depth], func(b *testing.B) {
				memory := nvme.NewMemory(size)
				s := set(b, kind, nvme.TargetOptions{QueueDepth: 256, QueueMemory: 4 << 20},
					nvme.Namespace{ID: 1, Disk: memory, Size: size, Writable: true, Immediate: true})
				d, err := s.dial(b, nvme.HostOptions{QueueDepth: 129}).Open(within(b), 1)
				ok(b, err)
				a, err := d.NewAsync(c.depth)
				ok(b, err)
				defer a.Close()
				bufs := make([][]byte, c.depth)
				for i := range bufs {
					bufs[i] = make([]byte, c.n)
				}
				results := make([]nvme.Result, c.depth)
				b.ResetTimer()
				n, start := 0, time.Now()
				for i := range bufs {
					ok(b, a.Read(bufs[i], rand.Int64N(size/int64(c.n))*int64(c.n), uint64(i)))
				}
				for time.Since(start) < 3*time.Second {
					k, err := a.Wait(b.Context(), results)
					ok(b, err)
					for _, r := range results[:k] {
						ok(b, r.Err)
						ok(b, a.Read(bufs[r.ID], rand.Int64N(size/int64(c.n))*int64(c.n), r.ID))
						n++
					}
				}
				b.ReportMetric(float64(n)/time.Since(start).Seconds(), "ops/s")
				b.ReportMetric(float64(n), "ops")
			})
		}
	}
}
