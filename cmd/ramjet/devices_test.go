// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
)

func TestDevicesList(t *testing.T) {
	r := ramjetCmd(t, "devices")
	r.wantSuccess(t)
	lines := strings.Split(r.stdout, "\n")
	if want := "DEVICE STATE NETDEV MTU"; strings.Join(strings.Fields(lines[0]), " ") != want {
		t.Errorf("heading %q, want %q", lines[0], want)
	}
	for _, line := range lines {
		if f := strings.Fields(line); len(f) == 4 && f[0] == "roce:127.0.0.1" {
			if f[1] != "ACTIVE" || f[2] != "lo" || f[3] != "4096" && !strings.Contains(r.stdout, "cannot be opened: roce:") {
				t.Errorf("%q", line)
			}
			return
		}
	}
	t.Errorf("roce:127.0.0.1 is missing:\n%s", r.stdout)
}

// It holds 127.0.0.1 of a network namespace: that of the host is for everybody's tests.
func TestDevicesInUse(t *testing.T) {
	t.Parallel()
	if !loopback.InNamespace(t, 65536) {
		return
	}
	defer hold(t, "roce:127.0.0.1").Close()
	r := ramjetCmd(t, "devices")
	r.wantSuccess(t)
	if !strings.Contains(strings.Join(strings.Fields(r.stdout), " "), "roce:127.0.0.1 ACTIVE lo - cannot be opened: roce: UDP port 4791 of 127.0.0.1 is in use") {
		t.Errorf("does not say that 127.0.0.1 is in use:\n%s", r.stdout)
	}
}

// The longest names that interfaces and their link-local addresses have fit into 80 columns, and so does what is said
// of devices that cannot be opened.
func TestDevicesFit(t *testing.T) {
	port := &portAttr{ActiveMTU: "4096"}
	found := []deviceInfo{{Name: "shm:127.0.0.1", Openable: true, Up: true, Port: port},
		{Name: "iwarp:fe80::28b3:4dff:feb7:f6b8%interface-of-15", NetDev: "interface-of-15", Openable: true, Port: port},
		{Name: "roce:192.0.2.1", NetDev: "eth0", Up: true, Problem: "UDP port 4791 of 192.0.2.1 is in use: " + strings.Repeat("it is a long story ", 20)}}
	var b strings.Builder
	if err := writeDeviceList(&b, found, true, 0, false); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(b.String(), "\n") {
		if utf8.RuneCountInString(line) > 80 || strings.HasSuffix(line, " ") {
			t.Errorf("%d columns: %q", utf8.RuneCountInString(line), line)
		}
	}
	if n := strings.Count(strings.Join(strings.Fields(b.String()), " "), "long story"); n != 20 {
		t.Errorf("the problem is cut:\n%s", b.String())
	}
}

func TestDevicesVerbose(t *testing.T) {
	name := testDevice(t)
	r := ramjetCmd(t, "devices", "-v", name)
	r.wantSuccess(t)
	got := map[string]string{}
	for line := range strings.Lines(r.stdout) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			got[k] = strings.TrimSpace(v)
		}
	}
	addr := strings.TrimPrefix(name, "roce:")
	for k, want := range map[string]string{
		"hca_id":        name,
		"transport":     "InfiniBand (0)",
		"phys_port_cnt": "1",
		"max_qp":        "65536",
		"atomic_cap":    "ATOMIC_GLOB (2)",
		"port":          "1",
		"state":         "PORT_ACTIVE (4)",
		"max_mtu":       "4096 (5)",
		"active_mtu":    "4096 (5)",
		"link_layer":    "Ethernet",
		"PKEY[  0]":     "0xffff",
		"GID[  0]":      "::ffff:" + addr + ", RoCE v2",
	} {
		if got[k] != want {
			t.Errorf("%s is %q, want %q", k, got[k], want)
		}
	}
	for _, k := range []string{"fw_ver", "node_guid", "sys_image_guid", "max_mr_size", "page_size_cap", "device_cap_flags", "max_sge",
		"max_cq", "max_cqe", "max_mr", "max_pd", "max_qp_rd_atom", "max_mw", "max_ah", "max_srq", "max_pkeys", "local_ca_ack_delay",
		"sm_lid", "port_lid", "max_msg_sz", "gid_tbl_len"} {
		if got[k] == "" {
			t.Errorf("%s is missing", k)
		}
	}
}

func TestDevicesJSON(t *testing.T) {
	name := testDevice(t)
	r := ramjetCmd(t, "devices", "--json", name)
	r.wantSuccess(t)
	var list struct{ Devices []deviceInfo }
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil {
		t.Fatalf("%v:\n%s", err, r.stdout)
	}
	got := list.Devices
	if len(got) != 1 || got[0].Name != name || !got[0].Openable || got[0].Attr == nil || got[0].Attr.MaxQP == 0 ||
		got[0].Port == nil || got[0].Port.ActiveMTU != "4096" || len(got[0].Port.GIDs) != 1 || len(got[0].Port.PKeys) != 1 {
		t.Errorf("%s", r.stdout)
	}

	all := ramjetCmd(t, "devices", "--json")
	all.wantSuccess(t)
	list.Devices = nil
	if err := json.Unmarshal([]byte(all.stdout), &list); err != nil || len(list.Devices) < 1 {
		t.Errorf("%v: %d devices:\n%s", err, len(list.Devices), all.stdout)
	}
}

func TestAckDelay(t *testing.T) {
	for d, want := range map[time.Duration]uint8{0: 0, 4096: 0, 4097: 1, 16 * time.Millisecond: 12, time.Hour * 24 * 365: 31} {
		if got := ackDelay(d); got != want {
			t.Errorf("%v is %d, want %d", d, got, want)
		}
	}
}

// On a terminal states have colors, and a narrow one has only the columns for which there is room.
func TestDeviceListNarrow(t *testing.T) {
	found := []deviceInfo{{Name: "roce:127.0.0.1", NetDev: "lo", Up: true, Openable: true, Port: &portAttr{ActiveMTU: "4096"}},
		{Name: "iwarp:127.0.0.1", NetDev: "lo", Problem: "somebody else has its port, which is all that there is to say"}}
	for _, width := range []int{20, 30, 40, 80} {
		var plain, colors strings.Builder
		writeDeviceList(&plain, found, false, width, false)
		writeDeviceList(&colors, found, false, width, true)
		for line := range strings.Lines(plain.String()) {
			if n := len(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns of %d: %q", n, width, line)
			}
		}
		if strings.Contains(plain.String(), "MTU") != (width >= 40) || strings.Contains(plain.String(), "STATE") != (width >= 30) {
			t.Errorf("%d columns:\n%s", width, plain.String())
		}
		if got := testrun.Plain(colors.String()); got != plain.String() || !strings.Contains(colors.String(), colorRed) {
			t.Errorf("colors:\n%s\nnone:\n%s", colors.String(), plain.String())
		}
	}
}
