// SPDX-License-Identifier: Apache-2.0

package shm_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/shm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func TestOpenRefuses(t *testing.T) {
	for name, want := range map[string]string{
		"nowhere":                  "no IP address",
		"0.0.0.0":                  "no single device",
		"127.0.0.1?dir":            "option",
		"127.0.0.1?copies=perhaps": "copies",
		"127.0.0.1?wait=never":     "wait",
		"127.0.0.1?color=red":      "there are dir",
		"?dir=/no/such/directory":  "no directory",
	} {
		dev, err := shm.Open(name, nil)
		if err == nil {
			dev.Close()
			t.Errorf("%s: opened", name)
			continue
		}
		if runtime.GOOS != "linux" && errors.Is(err, verbs.ErrNotSupported) {
			continue
		}
		if !strings.HasPrefix(err.Error(), "shm: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDirectory has two devices meet in a directory, and one of another directory miss them.
func TestDirectory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("shared memory needs Linux")
	}
	dir, other := t.TempDir(), t.TempDir()
	var devs [3]*verbs.Device
	for i, d := range []string{dir, dir, other} {
		dev, err := shm.Open("127.0.0.1?dir="+d, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		devs[i] = dev
	}
	meets := func(a, b *verbs.Device) error {
		l, err := cm.Listen(t.Context(), b, "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close()
		go func() {
			if c, err := l.Accept(t.Context()); err == nil {
				<-c.Done()
			}
		}()
		c, err := cm.Dial(t.Context(), a, l.Addr().String())
		if err == nil {
			err = c.Close()
		}
		return err
	}
	if err := meets(devs[0], devs[1]); err != nil {
		t.Error(err)
	}
	if err := meets(devs[0], devs[2]); err == nil {
		t.Error("devices of two directories meet")
	}
}
