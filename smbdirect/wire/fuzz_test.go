// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"errors"
	"math"
	"testing"
)

// The offsets of fields in the sections' pictures.
func TestLayouts(t *testing.T) {
	request := Request{MinVersion: 0x0100, MaxVersion: 0x0201, CreditsRequested: 0x0706, PreferredSendSize: 0x0b0a0908,
		MaxReceiveSize: 0x0f0e0d0c, MaxFragmentedSize: 0x13121110}
	check(t, request.Append(nil), []byte{0, 1, 1, 2, 0, 0, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19})
	response := Response{MinVersion: 0x0100, MaxVersion: 0x0201, NegotiatedVersion: 0x0504, CreditsRequested: 0x0908,
		CreditsGranted: 0x0b0a, Status: 0x0f0e0d0c, MaxReadWriteSize: 0x13121110, PreferredSendSize: 0x17161514,
		MaxReceiveSize: 0x1b1a1918, MaxFragmentedSize: 0x1f1e1d1c}
	check(t, response.Append(nil), []byte{0, 1, 1, 2, 4, 5, 0, 0, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19,
		20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31})
	transfer := Transfer{CreditsRequested: 0x0100, CreditsGranted: 0x0302, Flags: 0x0504,
		RemainingDataLength: 0x0b0a0908}
	check(t, transfer.AppendHeader(nil, 0), []byte{0, 1, 2, 3, 4, 5, 0, 0, 8, 9, 10, 11, 0, 0, 0, 0, 0, 0, 0, 0})
	check(t, transfer.AppendHeader(nil, 0x0201), []byte{0, 1, 2, 3, 4, 5, 0, 0, 8, 9, 10, 11, 24, 0, 0, 0, 1, 2, 0, 0,
		0, 0, 0, 0})
	descriptor := Descriptor{Offset: 0x0706050403020100, Token: 0x0b0a0908, Length: 0x0f0e0d0c}
	check(t, descriptor.Append(nil), []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
}

func check(t *testing.T, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add((&Request{MinVersion: Version1, MaxVersion: Version1, CreditsRequested: 255}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again Request
		if ok := r.Decode(b); ok != (len(b) >= RequestSize) {
			t.Fatalf("%d bytes: %t", len(b), ok)
		} else if ok && (!again.Decode(r.Append(nil)) || again != r) {
			t.Fatalf("%+v, and again %+v", r, again)
		}
	})
}

func FuzzResponse(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add((&Response{MinVersion: Version1, MaxVersion: Version1, Status: StatusNotSupported}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again Response
		if ok := r.Decode(b); ok != (len(b) >= ResponseSize) {
			t.Fatalf("%d bytes: %t", len(b), ok)
		} else if ok && (!again.Decode(r.Append(nil)) || again != r) {
			t.Fatalf("%+v, and again %+v", r, again)
		}
	})
}

// Decoded fields are within the message, and come out again when they are encoded.
func FuzzTransfer(f *testing.F) {
	t := Transfer{CreditsRequested: 1, CreditsGranted: 2, Flags: ResponseRequested, RemainingDataLength: 3}
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add(t.AppendHeader(nil, 0))
	f.Add(append(t.AppendHeader(nil, 1), 7))
	f.Add(t.AppendHeader(nil, 1))
	f.Add(t.AppendHeader(nil, math.MaxUint32))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, again Transfer
		data, err := m.Decode(b)
		if err != nil {
			if !errors.Is(err, ErrTransfer) {
				t.Fatal(err)
			}
			return
		}
		if len(data) > 0 && len(data) > len(b)-HeaderSize {
			t.Fatalf("%d bytes of data in a message of %d", len(data), len(b))
		}
		got, err := again.Decode(append(m.AppendHeader(nil, len(data)), data...))
		if err != nil || again != m || !bytes.Equal(got, data) {
			t.Fatalf("%+v with %x, and again %+v with %x: %v", m, data, again, got, err)
		}
	})
}

func FuzzDescriptors(f *testing.F) {
	d := Descriptor{Offset: 1, Token: 2, Length: 3}
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add(d.Append(nil))
	f.Add(d.Append(d.Append(nil)))
	f.Add(Descriptor{Offset: math.MaxUint64, Length: 1}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		const most = 4
		ds, total, err := DecodeDescriptors(b, most)
		if err != nil {
			if !errors.Is(err, ErrDescriptor) {
				t.Fatal(err)
			}
			return
		}
		var again []byte
		var sum uint64
		for _, d := range ds {
			again = d.Append(again)
			sum += uint64(d.Length)
		}
		if len(ds) > most || sum != total || !bytes.Equal(again, b) {
			t.Fatalf("%d descriptors of %d bytes, %d in all", len(ds), sum, total)
		}
	})
}
