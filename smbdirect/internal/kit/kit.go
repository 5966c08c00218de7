// SPDX-License-Identifier: Apache-2.0

// Package kit has the helpers that the module's tests have in common.
package kit

import (
	"context"
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/smbdirect/internal/smb2"
)

// Patience bounds a wait for something that must happen.
const Patience = time.Minute

// OK ends a test that has an error.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Within returns a context that ends with the test, or after [Patience].
func Within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Kinds runs a test over each kind of device.
func Kinds(t *testing.T, f func(t *testing.T, kind string)) {
	if runtime.GOOS != "linux" {
		t.Skip("127.0.0.0/8 is local as a whole on Linux only")
	}
	for _, kind := range []string{"roce", "iwarp", "shm"} {
		t.Run(kind, func(t *testing.T) { f(t, kind) })
	}
}

// Message returns a message of SMB2 with a header and a body.
func Message(command uint16, flags uint32, id uint64, body []byte) []byte {
	b := make([]byte, smb2.HeaderSize, smb2.HeaderSize+len(body))
	copy(b, "\xfeSMB")
	binary.LittleEndian.PutUint16(b[4:], smb2.HeaderSize)
	binary.LittleEndian.PutUint16(b[12:], command)
	binary.LittleEndian.PutUint32(b[16:], flags)
	binary.LittleEndian.PutUint64(b[24:], id)
	return append(b, body...)
}
