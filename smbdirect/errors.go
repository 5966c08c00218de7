// SPDX-License-Identifier: Apache-2.0

package smbdirect

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/ramjet-rdma/ramjet/smbdirect/internal/frame"
	"github.com/ramjet-rdma/ramjet/verbs"
)

var (
	// ErrProtocol is in the error of a connection whose peer sent a message that the protocol does not allow.
	ErrProtocol = errors.New("the peer broke the protocol of SMB Direct")

	// ErrVersion is in the error of a connection whose sides have no version in common.
	ErrVersion = errors.New("the peer does not have version 1.0 of SMB Direct")

	// ErrTooLong is in the error of a message or transfer that is longer than the peer takes. The connection stays.
	ErrTooLong = frame.ErrTooLong
)

// statusErr returns why a connection broke, of whose queue pair a work request failed.
func statusErr(wc *verbs.WC, qp *verbs.QP) error {
	switch wc.Status {
	case verbs.StatusWRFlushError:
		switch f := qp.Failure(); {
		case f == nil || f.Side == verbs.FailedStream || f.Reason == verbs.ReasonPeerClosed:
			return io.EOF
		default:
			return fmt.Errorf("%w: %v", syscall.ECONNRESET, f)
		}
	case verbs.StatusRetryExceeded, verbs.StatusRNRRetryExceeded:
		return fmt.Errorf("%w: %w", syscall.ETIMEDOUT, wc.Err())
	}
	return fmt.Errorf("%w: %w", syscall.ECONNRESET, wc.Err())
}
