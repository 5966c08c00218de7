// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/democmd"
	"github.com/ramjet-rdma/ramjet/internal/app/demo"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

func TestDemo(t *testing.T) {
	t.Parallel()
	testDevice(t) // skips where there are not enough addresses
	r := ramjetCmd(t, "demo")
	r.wantSuccess(t)
	if r.stderr != "" {
		t.Errorf("standard error: %q", r.stderr)
	}
	for line := range strings.Lines(r.stdout) {
		if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > 80 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	if strings.Contains(r.stdout, "\x1b") {
		t.Error("escape sequences although there is no terminal")
	}
	for _, want := range []string{
		`^Two processes, roce:127\.\d+\.\d+\.1 and roce:127\.\d+\.\d+\.2,\nover RoCEv2`,
		`(?m)^ +operation +verified in both`,
		`(?m)^ +RC SEND +[1-9]\d*00 × 64 B +no error$`,
		`(?m)^ +RC SEND with immediate +\d+ × 64 B`,
		`(?m)^ +RC WRITE +\d+ × 64 B`,
		`(?m)^ +RC WRITE with immediate +\d+ × 64 B`,
		`(?m)^ +RC READ +\d+ × 64 B`,
		`(?m)^ +RC compare-and-swap +\d+ × 8 B`,
		`(?m)^ +RC fetch-and-add +\d+ × 8 B`,
		`(?m)^ +UC SEND +\d+ × 64 B`,
		`(?m)^ +UC WRITE +\d+ × 64 B`,
		`(?m)^ +UD SEND +\d+ × 64 B`,
		`(?m)^ +RC SEND +\d+ × 1 MiB`,
		`(?m)^ +RC WRITE +\d+ × 1 MiB`,
		`(?m)^ +RC READ +\d+ × 1 MiB`,
		`(?m)^ +13 operations moved .*\n +both compared every byte: no error\.$`,
		`(?m)^2\. The second process was stopped`,
		`(?m)^ +16 READs of 1 MiB over shared memory took .* every byte compared\.$`,
		`(?m)^3\. The packets of one WRITE of 64 B`,
		`(?m)^ +0\.000000 +├── Write Only  PSN \d+  64 B ─+▶│$`,
		`(?m)^ +[\d.]+ +│◀─+ ACK  PSN \d+ ──┤$`,
		`(?m)^4\. Speed`,
		`(?m)^ +shm +(at most )?[\d.]+ [nµm]?s +(at least )?[\d.]+ [kGM]B/s +(not known|[\d.]+ [nµm]?s a GB)$`,
		`(?m)^ +roce +(at most )?[\d.]+ [µm]s +(at least )?[\d.]+ [kGM]B/s`,
		`(?m)^ +TCP +(at most )?[\d.]+ [µm]s +(at least )?[\d.]+ [kGM]B/s`,
		`(?m)^Next: `,
	} {
		if !regexp.MustCompile(want).MatchString(r.stdout) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
}

func TestDemoRecorded(t *testing.T) {
	t.Parallel()
	testDevice(t)
	file := filepath.Join(t.TempDir(), "demo.pcapng")
	r := ramjetCmd(t, "demo", "--json", "--pcap", file)
	r.wantSuccess(t)
	var report demo.Report
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatalf("%v:\n%s", err, r.stdout)
	}
	if !report.Recorded || len(report.Rows) != 13 || report.PathMTU != 4096 {
		t.Errorf("%+v", report)
	}
	for _, row := range report.Rows {
		if row.VerifiedBytes < int64(row.Messages*row.Size) || row.Messages == 0 {
			t.Errorf("%+v", row)
		}
	}
	if r := report.Stopped; r == nil || r.VerifiedBytes != int64(r.Reads*r.Size) || r.Reads == 0 ||
		r.TargetNs != nil && *r.TargetNs != 0 {
		t.Errorf("READs from a stopped process: %+v", r)
	}
	frames := verifyRecording(t, file)
	if frames < 4000 {
		t.Errorf("%d frames recorded, want at least those of 12 MiB", frames)
	}
	said := regexp.MustCompile(`: (\d+) packets written, \d+ left out\n$`).FindStringSubmatch(r.stderr)
	if said == nil || said[1] != jsonNumber(frames) {
		t.Errorf("standard error %q, and %d frames are in the file", r.stderr, frames)
	}
}

func jsonNumber(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

// verifyRecording reads a recording of IPv4 packets, verifies the ICRC of each, with the
// identification of its IP header, and returns how many there are.
func verifyRecording(t *testing.T, file string) (frames int) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const enhancedPacket = 6
	for len(b) >= 12 {
		typ, n := binary.LittleEndian.Uint32(b), int(binary.LittleEndian.Uint32(b[4:]))
		if n < 12 || n > len(b) {
			t.Fatalf("a block of %d bytes, %d are left", n, len(b))
		}
		if typ == enhancedPacket {
			frames++
			ip := b[28:][:binary.LittleEndian.Uint32(b[20:])]
			src, _ := netip.AddrFromSlice(ip[12:16])
			dst, _ := netip.AddrFromSlice(ip[16:20])
			udp := ip[20:]
			flow := ib.NewPseudoHeader(netip.AddrPortFrom(src, binary.BigEndian.Uint16(udp)),
				netip.AddrPortFrom(dst, binary.BigEndian.Uint16(udp[2:])), ip[6]&0x40 != 0)
			if _, how := flow.Verify(udp[8:], binary.BigEndian.Uint16(ip[4:])); how != ib.VerifiedWhole {
				t.Fatalf("frame %d: the ICRC is wrong", frames)
			}
		}
		b = b[n:]
	}
	if len(b) != 0 {
		t.Errorf("%d bytes at the end", len(b))
	}
	return frames
}

func TestDemoPeerAlone(t *testing.T) {
	r := ramjetCmd(t, democmd.PeerName) // its standard input is empty
	if r.status != 0 || r.stdout != "" || r.stderr != "" {
		t.Errorf("%+v", r)
	}
}
