// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"log/slog"
)

// maxFailures limits the failures that wait to be logged. Those beyond are dropped.
const maxFailures = 256

// LogFailures has every failure of a queue pair of the device logged, one record for each, with the numbers
// of [Failure] as attributes: errors of this side's work requests as warnings, and so are requests of peers
// that this side refuses. A queue pair that fails once stops, so a peer cannot cause more than one record for
// each connection. It is called once. ErrNotSupported: the device does not tell.
func (d *Device) LogFailures(log *slog.Logger) error {
	r, ok := d.drv.(FailureReporter)
	if !ok {
		return opErr("log_failures", ErrNotSupported, "")
	}
	failures, done, name := make(chan *Failure, maxFailures), d.done, d.Name()
	r.SetFailureSink(func(f *Failure) {
		select {
		case failures <- f:
		default: // the log is slower than queue pairs fail
		}
	})
	go func() { // which does not keep the device alive
		for {
			select {
			case f := <-failures:
				logFailure(log, name, f)
			case <-done:
				for {
					select {
					case f := <-failures:
						logFailure(log, name, f)
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

func logFailure(log *slog.Logger, device string, f *Failure) {
	attrs := []slog.Attr{slog.String("device", device), slog.Int("qpn", int(f.QPN)), slog.String("status", f.Status.String()),
		slog.String("reason", f.Reason.String()), slog.String("op", f.Op.String())}
	if f.Side != FailedRequest {
		attrs = append(attrs, slog.Uint64("wr_id", f.ID))
	}
	if f.HasPSN {
		attrs = append(attrs, slog.Int("psn", int(f.PSN)))
	}
	if f.HasMemory() {
		attrs = append(attrs, slog.Uint64("addr", f.Addr), slog.Uint64("length_bytes", f.Length), slog.Uint64("key", uint64(f.Key)))
	}
	log.LogAttrs(context.Background(), slog.LevelWarn, "rdma: "+f.String(), attrs...)
}
