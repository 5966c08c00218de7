// SPDX-License-Identifier: Apache-2.0

package verbs_test

import (
	"errors"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

func TestFailureText(t *testing.T) {
	for want, f := range map[string]verbs.Failure{
		"RDMA_WRITE (work request 7) failed: remote access error, PSN 9: refused by the peer: 8 bytes at 0x1000, key 0x00000123": {
			Status: verbs.StatusRemoteAccessError, Reason: verbs.ReasonPeerRefused, Op: verbs.WCWrite, ID: 7, PSN: 9,
			HasPSN: true, Key: 0x123, Addr: 0x1000, Length: 8},
		"SEND (work request 7) failed: transport retry counter exceeded: no answer": {Status: verbs.StatusRetryExceeded,
			Reason: verbs.ReasonNoAnswer, ID: 7},
		"receive 3 failed: local length error: message too long: the receive has 10 bytes": {
			Side: verbs.FailedRecv, Status: verbs.StatusLocalLengthError, Reason: verbs.ReasonTooLong, ID: 3,
			Length: 10},
		"refused the peer's RDMA_READ: remote access error: out of bounds: 8 bytes at 0x1000, key 0x00000123, which has 4 bytes at 0x1000": {
			Side: verbs.FailedRequest, Status: verbs.StatusRemoteAccessError, Reason: verbs.ReasonOutside,
			Op: verbs.WCRead, Key: 0x123, Addr: 0x1000, Length: 8,
			MemAddr: 0x1000, MemLen: 4},
		"refused the peer's RDMA_READ: remote access error: access not allowed: 8 bytes at 0x1000, key 0x00000123, which allows nothing and not REMOTE_READ": {
			Side: verbs.FailedRequest, Status: verbs.StatusRemoteAccessError, Reason: verbs.ReasonNoRight,
			Op: verbs.WCRead, Key: 0x123, Addr: 0x1000, Length: 8,
			Need: verbs.RemoteRead},
		"FETCH_ADD (work request 7) failed: local length error: an atomic takes 8 bytes, and the list has 4": {
			Status: verbs.StatusLocalLengthError, Reason: verbs.ReasonNotEight, Op: verbs.WCFetchAdd, ID: 7, Key: 0x123,
			Addr: 0x1000, Length: 4},
		"SEND (work request 7) failed: RNR retry counter exceeded, PSN 9: no receive posted (rnr_retry 6)": {
			Status: verbs.StatusRNRRetryExceeded, Reason: verbs.ReasonNotReady, ID: 7, PSN: 9, HasPSN: true,
			Detail: "rnr_retry 6"},
		"RDMA_WRITE failed after its completion: remote access error: refused by the peer (Terminate 0x1101): 8 bytes at 0x1000, key 0x00000123": {
			Side: verbs.FailedCompleted, Status: verbs.StatusRemoteAccessError, Reason: verbs.ReasonPeerRefused,
			Op: verbs.WCWrite, Key: 0x123, Addr: 0x1000, Length: 8,
			Detail: "Terminate 0x1101"},
		"the connection ended: transport retry counter exceeded: no answer": {Side: verbs.FailedStream,
			Status: verbs.StatusRetryExceeded, Reason: verbs.ReasonNoAnswer},
		"the connection ended: closed by the peer": {Side: verbs.FailedStream, Status: verbs.StatusWRFlushError,
			Reason: verbs.ReasonPeerClosed},
	} {
		if got := f.String(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

func TestWCErr(t *testing.T) {
	wc := verbs.WC{Status: verbs.StatusLocalProtectionError, VendorErr: uint32(verbs.ReasonOutside)}
	err := wc.Err()
	if !errors.Is(err, verbs.StatusLocalProtectionError.Err()) ||
		err.Error() != "verbs: work request failed: local protection error: out of bounds" {
		t.Error(err)
	}
	if wc = (verbs.WC{}); wc.Err() != nil {
		t.Error(wc.Err())
	}
	// of another device
	if wc = (verbs.WC{Status: verbs.StatusGeneralError,
		VendorErr: 1 << 20}); wc.Err().Error() != "verbs: work request failed: general error: unknown" {
		t.Error(wc.Err())
	}
}
