// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"fmt"
	"log/slog"
	"weak"
)

// maxFailures limits the failures that wait to be logged. Further failures are dropped.
const maxFailures = 256

// LogFailures logs each failure of a queue pair of the device as a warning, with the numbers of [Failure] as
// attributes: errors of this side's work requests, and requests of peers that this side refuses. A queue
// pair stops at its first failure, so a peer causes one record a connection at most. LogFailures is called
// once. ErrNotSupported: the device does not report failures.
func (d *Device) LogFailures(log *slog.Logger) error {
	failures, done, name, self := make(chan *Failure, maxFailures), d.done, d.Name(), weak.Make(d)
	err := d.drv.SetFailureSink(func(f *Failure) {
		select {
		case failures <- f:
		default: // the log is slower than queue pairs fail
		}
	})
	if err != nil {
		return wrap("log_failures", err)
	}
	write := func(f *Failure) {
		if d := self.Value(); d != nil && d.checks != nil {
			f = d.checks.Name(f)
		}
		logFailure(log, name, f)
	}
	go func() { // which does not keep the device alive
		for {
			select {
			case f := <-failures:
				write(f)
			case <-done:
				for {
					select {
					case f := <-failures:
						write(f)
						continue
					default:
					}
					return
				}
			}
		}
	}()
	return nil
}

// Addresses and keys are written as `ramjet stat` writes them.
func hexAddr(a uint64) string { return fmt.Sprintf("%#x", a) }
func hexKey(k Key) string     { return fmt.Sprintf("0x%08x", uint32(k)) }

func logFailure(log *slog.Logger, device string, f *Failure) {
	attrs := []slog.Attr{slog.String("device", device), slog.Int("qpn", int(f.QPN)),
		slog.String("status", f.Status.String()),
		slog.String("reason", f.Reason.String()), slog.String("op", f.Op.String())}
	if f.Side == FailedSend || f.Side == FailedRecv {
		attrs = append(attrs, slog.Uint64("wr_id", f.ID))
	}
	if f.HasPSN {
		attrs = append(attrs, slog.Int("psn", int(f.PSN)))
	}
	if f.Detail != "" {
		attrs = append(attrs, slog.String("detail", f.Detail))
	}
	if f.HasMemory() {
		attrs = append(attrs, slog.Uint64("length_bytes", f.Length))
	}
	if f.Key != 0 || f.Addr != 0 {
		attrs = append(attrs, slog.String("addr", hexAddr(f.Addr)), slog.String("key", hexKey(f.Key)))
	}
	if f.MemLen != 0 {
		attrs = append(attrs, slog.String("key_addr", hexAddr(f.MemAddr)), slog.Uint64("key_length_bytes", f.MemLen))
	}
	if f.Reason == ReasonNoRight || f.Reason == ReasonQPAccess {
		attrs = append(attrs, slog.String("allows", f.Allows.String()), slog.String("needs", f.Need.String()))
	}
	log.LogAttrs(context.Background(), slog.LevelWarn, "rdma: "+f.String(), attrs...)
}
