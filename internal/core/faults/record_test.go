// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRecords: the summary of a program that has not logged one before it ended is logged by the process that has
// started it, with the faults of devices that were not opened.
func TestRecords(t *testing.T) {
	dir, log := t.TempDir(), filepath.Join(t.TempDir(), "log.%p")
	const text = "loss nth 2 sent; fail reg_mr ENOMEM; event QP_FATAL; loss device roce:192.0.2.9"
	t.Setenv(RecordsVariable, dir)
	set, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	l, err := openLog(logName(log, os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	ended, closed := NewInjector(set, "roce:192.0.2.7", l), NewInjector(set, "roce:192.0.2.8", l)
	before := NewInjector(set, "roce:192.0.2.7", l)
	for range 2 {
		before.Packet(&Packet{Way: Sent}, 0)
	}
	ended.Carry(before)
	ended.Begin()
	closed.Begin()
	for range 3 {
		ended.Packet(&Packet{Way: Sent}, 0)
	}
	ended.Came(ended.Moments()[0], 0, false)
	closed.Finish()
	liveLock.Lock() // as if this were another process
	delete(live, ended)
	clear(met)
	liveLock.Unlock()
	if err := FinishRecords(dir, text, log, os.Getpid()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(logName(log, os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	got := string(b)
	for _, want := range []string{
		"# faults of roce:192.0.2.7:\n" +
			"#   loss nth 2 sent: struck 1 of 3 packets\n" +
			"#   fail reg_mr ENOMEM: never struck: there were no reg_mr calls that it selects\n" +
			"#   event QP_FATAL: never struck: there was no queue pair as its time came\n" +
			"#   loss nth 2 sent: struck 1 of 2 packets, and has ended\n",
		"# faults of devices that were not opened:\n#   loss device roce:192.0.2.9: never struck: the process has not opened this device\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the log has no %q:\n%s", want, got)
		}
	}
	if n := strings.Count(got, "# faults of roce:192.0.2.8:"); n != 1 {
		t.Errorf("the summary of a device that was closed was logged %d times:\n%s", n, got)
	}
}

// TestDamagedRecords: a record that is cut off, or says nonsense, is an error.
func TestDamagedRecords(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(RecordsVariable, dir)
	set, err := Parse("loss nth 2; fail reg_mr ENOMEM")
	if err != nil {
		t.Fatal(err)
	}
	l, err := openLog(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	in := NewInjector(set, "roce:192.0.2.7", l)
	in.Begin()
	defer in.Finish()
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	b, err := os.ReadFile(filepath.Join(dir, files[0].Name()))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := readRecord(b); err != nil {
		t.Fatal(err)
	}
	for n := range b {
		if _, _, _, err := readRecord(b[:n]); err == nil {
			t.Errorf("%d of %d bytes are taken for a record", n, len(b))
		}
	}
	for _, n := range []byte{0, 1, 3, 255} {
		bad := append([]byte(nil), b...)
		bad[8] = n
		if _, _, _, err := readRecord(bad); err == nil {
			t.Errorf("a record is taken with %d faults", n)
		}
	}
}

// FuzzRecord: any record is read or is an error, and its summary is text.
func FuzzRecord(f *testing.F) {
	for _, s := range []string{"", strings.Repeat("\x00", 16) + `{"Device":"roce:192.0.2.7"}`,
		"\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00" + strings.Repeat("\x01", 24) +
			`{"Faults":["event QP_FATAL"]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if in, _, _, err := readRecord(b); err == nil {
			in.Summary()
		}
	})
}
