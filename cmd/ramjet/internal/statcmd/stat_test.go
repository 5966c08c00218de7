// SPDX-License-Identifier: Apache-2.0

package statcmd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// statSample is a process with some of everything.
func statSample() *statsocket.Process {
	mapped := func(last byte) (g verbs.GID) {
		g[10], g[11], g[12], g[15] = 0xff, 0xff, 127, last
		return g
	}
	connected := driver.QPInfo{PD: 1, SendCQ: 1, RecvCQ: 2}
	connected.QPStats = verbs.QPStats{QPN: 16_777_214, Type: verbs.RC, State: verbs.StateRTS, DestQPN: 16_777_213,
		DestGID:   mapped(9),
		SendQueue: 128, RecvQueue: 64, InFlight: 1_029_120, Window: 1 << 20, RTT: 625300 * time.Nanosecond}
	connected.QPCounts = metric.QPCounts{SentMessages: 69_812, SentBytes: 4_582_899_712, Retransmitted: 1512,
		Timeouts: 12, LateAcks: 41, RNRs: 3}
	fresh := driver.QPInfo{PD: 1, SendCQ: 1, RecvCQ: 2, SRQ: 1}
	fresh.QPStats = verbs.QPStats{QPN: 17, Type: verbs.UD, State: verbs.StateInit}
	d := observe.Device{Name: "roce:127.0.0.7", Kind: "roce", Transport: "InfiniBand",
		Ports: []observe.Port{{Num: 1, State: verbs.PortActive, NetDev: "lo", GID: mapped(7), ActiveMTU: 4096}},
		Metrics: []observe.Metric{{Name: "pds", Gauge: true, Unit: "objects", Value: 1},
			{Name: "sent_pkts", Unit: "packets", Value: 1118872}},
		QPs: []driver.QPInfo{fresh, connected},
		CQs: []driver.CQInfo{{Num: 1, Capacity: 641, Waiting: 11, Armed: true}, {Num: 2, Capacity: 10, Overflow: true}},
		MRs: []driver.MRInfo{{Key: 0x1234abcd, PD: 1, Addr: 0x7f479434e000, Len: 1 << 30,
			Access: verbs.LocalWrite | verbs.RemoteRead | verbs.RemoteWrite | verbs.RemoteAtomic}, {Key: 5, PD: 1}},
		MWs: []driver.MWInfo{{Key: 0xab01, PD: 1, Type: verbs.MWType2, Region: 0x1234abcd, Addr: 0x7f479434e000,
			Len: 1 << 20, Access: verbs.RemoteRead | verbs.RemoteWrite}, {Key: 0xac00, PD: 1, Type: verbs.MWType1}},
		SRQs: []driver.SRQInfo{{Num: 1, PD: 1, Capacity: 1000, Limit: 10},
			{Num: 2, PD: 1, XRC: 16_777_215, Capacity: 5}},
		AHs:     []driver.AHInfo{{PD: 1, DGID: mapped(9), Port: 1}, {PD: 1, DLID: 7, SL: 3, Port: 2}},
		Conns:   []driver.ConnInfo{{State: "listening", PortSpace: "TCP", Listening: true}},
		NoConns: true, Injected: []faults.Count{{Kind: "loss", Struck: 17}, {Kind: "fail", Struck: 1},
			{QPN: 16_777_214, Kind: "loss", Struck: 17}}}
	return &statsocket.Process{PID: 4242, UID: 1000, Command: "kv",
		State: &observe.Process{Devices: []observe.Device{d}}}
}

func TestStatViews(t *testing.T) {
	want := map[string][]string{
		"summary": {"link roce:127.0.0.7/1 state ACTIVE netdev lo pid 4242 comm kv",
			"qp 2 cm_id 1 mr 2, 11 completions waiting", "16777214", "\n  injected faults: 17 loss, 1 fail\n"},
		"link":     {"link roce:127.0.0.7/1 state ACTIVE netdev lo pid 4242 comm kv\n"},
		"resource": {"roce:127.0.0.7: pd 1 cq 2 qp 2 cm_id 1 mr 2 mw 0 srq 0 ah 0 pid 4242 comm kv\n"},
		"qp": {"16777214 RC   RTS   16777213 127.0.0.9 128 64 1.03M    1.05M  625µs",
			"17       UD   INIT  -        -         0   0  0        -      -", "  injected faults: 17 loss, 1 fail\n",
			"  16777214: injected faults: 17 loss\n"},
		"cq": {"1   641 11      yes   OK", "2   10  0       no    OVERFLOW"},
		"mr": {"0x1234abcd 1  0x7f479434e000 1073741824 local rw remote rwa",
			"0x00000005 1  0x0            0          local r\n"},
		"mw":    {"0x0000ab01 2B   1  0x1234abcd 0x7f479434e000 1048576 remote rw", "0x0000ac00 1    1  -"},
		"srq":   {"1    BASIC        1  1000 10    17\n", "2    XRC 16777215 1  5    0     -\n"},
		"ah":    {"1  1    0  127.0.0.9", "1  2    3  LID 7"},
		"cm_id": {"-    -    TCP listening -     -", "could not be asked"},
		"statistic": {"16777214 69.8k  4.58G   0      0       1512 12    41   0   0    3   0   0",
			"sent_pkts                                 1118872 packets"},
	}
	for _, v := range Views {
		var o statOutput
		o.process(statSample(), v)
		text := o.b.String()
		for _, w := range want[v.Name] {
			if !strings.Contains(text, w) {
				t.Errorf("%s: no %q in\n%s", v.Name, w, text)
			}
		}
		for line := range strings.Lines(text) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
				t.Errorf("%s: a line of %d columns: %s", v.Name, n, line)
			}
		}
	}
}

// Injected faults are in JSON by kind, and only where there are some.
func TestStatInjected(t *testing.T) {
	js := newStatDeviceJS(&statSample().State.Devices[0])
	if len(js.Injected) != 2 || js.Injected["loss"] != 17 || js.QPs[0].Injected != nil ||
		js.QPs[1].Injected["loss"] != 17 {
		t.Errorf("%v, %+v", js.Injected, js.QPs)
	}
}

// The summary has the queue pairs that moved most, and says that there are others.
func TestStatSummaryMany(t *testing.T) {
	p := statSample()
	d := &p.State.Devices[0]
	for i := range 50 {
		q := driver.QPInfo{}
		q.QPN = verbs.QPN(1000 + i)
		d.QPs = append(d.QPs, q)
	}
	var o statOutput
	o.process(p, Views[0])
	lines := strings.Split(o.b.String(), "\n")
	if len(lines) < 5 || !strings.Contains(lines[4], "16777214") ||
		!strings.Contains(o.b.String(), "and 42 others: ramjet stat qp 4242") {
		t.Error(o.b.String())
	}
}

// A port that is not up has the state in the words of rdma link, and the lines below it are the device's if that
// has several ports.
func TestStatPorts(t *testing.T) {
	p := statSample()
	d := &p.State.Devices[0]
	d.Ports = append(d.Ports, observe.Port{Num: 2, State: verbs.PortDown, Physical: 2, LID: 3})
	d.Ports[0].Physical = 5
	for view, want := range map[string]string{
		"link": "link roce:127.0.0.7/1 state ACTIVE netdev lo pid 4242 comm kv\nlink roce:127.0.0.7/2 lid 3 state DOWN physical_state POLLING pid 4242 comm kv\n",
		"qp":   "dev roce:127.0.0.7 pid 4242 comm kv\n",
	} {
		var o statOutput
		o.process(p, Views[slices.IndexFunc(Views, func(v View) bool { return v.Name == view })])
		if text := o.b.String(); !strings.HasPrefix(text, want) {
			t.Errorf("%s: %s\nwant %s", view, text, want)
		}
	}
}

// The kernel's devices are listed as rdma link lists them.
func TestKernelLinks(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{"mlx5_0/ports/1/state": "4: ACTIVE\n",
		"mlx5_0/ports/1/phys_state":        "5: LinkUp\n",
		"mlx5_0/ports/1/gid_attrs/ndevs/0": "eth0\n", "mlx5_0/ports/2/state": "1: DOWN\n"} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := []kernelLink{{"mlx5_0", 1, "ACTIVE", "LINK_UP", "eth0"}, {"mlx5_0", 2, "DOWN", "-", ""}}
	if got := kernelLinksIn(dir); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if got := kernelLinksIn(filepath.Join(dir, "none")); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// A table that is wider than the terminal is cut into several with the same first column; words have colors.
func TestStatNarrow(t *testing.T) {
	o := &statOutput{width: 30, color: true}
	o.b.WriteString("link roce:192.0.2.7/1 state ACTIVE netdev eth0 pid 12345 comm something\n")
	o.table("LQPN\tTYPE\tSTATE\tPEER\tWINDOW\tRTT", 2, func(i int) string {
		return []string{"17\tRC\tRTS\t192.0.2.9\t1.05M\t12.3µs", "18\tRC\tERR\t-\t-\t-"}[i]
	})
	text := string(o.styled())
	plain := testrun.Plain(text)
	for line := range strings.Lines(plain) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 30 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	if strings.Count(plain, "LQPN") != 2 || !strings.Contains(plain, "12.3µs") ||
		!strings.Contains(text, cli.ColorRed+"ERR"+cli.ColorOff) ||
		!strings.Contains(text, cli.ColorGreen+"ACTIVE"+cli.ColorOff) {
		t.Errorf("%s", text)
	}
	wide := &statOutput{}
	wide.table("A\tB", 1, func(int) string { return "1\t2" })
	if got := string(wide.styled()); got != "  A B\n  1 2\n" {
		t.Errorf("%q", got)
	}
}
