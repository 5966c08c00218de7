// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/devicescmd"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
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
			if f[1] != "ACTIVE" || f[2] != "lo" ||
				f[3] != "4096" && !strings.Contains(r.stdout, "cannot be opened: roce:") {
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
	if !strings.Contains(strings.Join(strings.Fields(r.stdout), " "),
		"roce:127.0.0.1 ACTIVE lo - cannot be opened: roce: UDP port 4791 of 127.0.0.1 is in use") {
		t.Errorf("does not say that 127.0.0.1 is in use:\n%s", r.stdout)
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
	for _, k := range []string{"fw_ver", "node_guid", "sys_image_guid", "max_mr_size", "page_size_cap",
		"device_cap_flags", "max_sge", "max_cq", "max_cqe", "max_mr", "max_pd", "max_qp_rd_atom", "max_mw", "max_ah",
		"max_srq", "max_pkeys", "local_ca_ack_delay", "sm_lid", "port_lid", "max_msg_sz", "gid_tbl_len"} {
		if got[k] == "" {
			t.Errorf("%s is missing", k)
		}
	}
}

func TestDevicesJSON(t *testing.T) {
	name := testDevice(t)
	r := ramjetCmd(t, "devices", "--json", name)
	r.wantSuccess(t)
	var list struct{ Devices []devicescmd.Info }
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil {
		t.Fatalf("%v:\n%s", err, r.stdout)
	}
	got := list.Devices
	if len(got) != 1 || got[0].Name != name || !got[0].Openable || got[0].Attr == nil || got[0].Attr.MaxQP == 0 ||
		got[0].Port == nil || got[0].Port.ActiveMTU != "4096" || len(got[0].Port.GIDs) != 1 ||
		len(got[0].Port.PKeys) != 1 {
		t.Errorf("%s", r.stdout)
	}

	all := ramjetCmd(t, "devices", "--json")
	all.wantSuccess(t)
	list.Devices = nil
	if err := json.Unmarshal([]byte(all.stdout), &list); err != nil || len(list.Devices) < 1 {
		t.Errorf("%v: %d devices:\n%s", err, len(list.Devices), all.stdout)
	}
}
