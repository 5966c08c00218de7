// SPDX-License-Identifier: Apache-2.0

package perfcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/perf"
	"github.com/ramjet-rdma/ramjet/internal/app/perf/baseline"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
)

// perfPeerEnv makes the test binary the second process of --loopback.
const perfPeerEnv = "RAMJET_TEST_PERF_PEER"

func init() {
	if os.Getenv(perfPeerEnv) == "" || len(os.Args) < 3 || os.Args[2] != perfPeerName {
		return
	}
	os.Unsetenv(perfPeerEnv)
	root := perfRoot()
	root.SetArgs(os.Args[1:])
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(cli.ExitStatus(err))
	}
	os.Exit(0)
}

func perfRoot() *cobra.Command {
	root := cli.Group("ramjet", "", New())
	root.SilenceUsage, root.SilenceErrors = true, true
	return root
}

// runPerf runs `ramjet perf` with args.
func runPerf(ctx context.Context, stderr io.Writer, args ...string) (string, error) {
	var out bytes.Buffer
	root := perfRoot()
	root.SetArgs(append([]string{"perf"}, args...))
	root.SetOut(&out)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	return out.String(), err
}

func TestPerfUsage(t *testing.T) {
	for args, want := range map[string]string{
		"send bwx":                                  `unknown command "bwx": did you mean bw?`,
		"sned bw":                                   `unknown command "sned": did you mean send?`,
		"send bw --sise 3":                          "unknown flag: --sise",
		"send bw one two":                           "\"two\" is one argument too many",
		"send bw -s 0":                              "--size is 0",
		"send bw -s 2G":                             "it can be 1 GiB at most",
		"send bw -s many":                           `"many" is not a size`,
		"send bw -s 64 -a":                          "--all and --size exclude each other",
		"send bw -n 0":                              "--iters is 0",
		"send bw -n -5":                             "--iters is -5",
		"send bw -D soon":                           `"soon" is not a time`,
		"send bw -D 0":                              `"0" is not a time`,
		"send bw -D 1 -n 5":                         "--duration and --iters exclude each other",
		"send bw -c XX":                             `no transport "XX"`,
		"write bw -c UD":                            "UD has no WRITE",
		"read bw -c RC":                             "unknown shorthand flag: 'c'",
		"send bw -m 1000":                           "no path MTU 1000",
		"send bw -t 0":                              "--tx-depth is 0",
		"send bw -l 500":                            "post list is 500",
		"send bw -Q 0":                              "--cq-mod is 0",
		"send bw --runs 0":                          "--runs is 0",
		"send bw -p 70000":                          "--port is 70000",
		"send bw --loopback 127.0.0.1":              "--loopback and a host exclude each other",
		"send bw --loopback -d iwarp:::1":           "--loopback needs",
		"send bw -d shmm":                           "no device name",
		"send bw 127.0.0.1 -d roce:203.0.113.77":    "203.0.113.77 is not an address of this host",
		"send bw -d roce:203.0.113.77 -p 0":         "not an address of this host",
		"send bw --cpuprofile /nowhere/profile":     "--cpuprofile",
		"send lat -q 2":                             "unknown shorthand flag: 'q'",
		"atomic bw -A SWAP":                         "there are FETCH_AND_ADD and CMP_AND_SWAP",
		"atomic lat -s 16":                          "unknown shorthand flag: 's'",
		"read bw -o 500":                            "number of outstanding reads is 500",
		"table --only nothing-has-this-name":        "no figure has",
		"table -d roc:":                             `--device "roc:": there are figures of iwarp: and roce:`,
		"table --runs 0":                            "--runs is 0",
		"send bw --loopback --pcap /nowhere/a.pcap": "--pcap",
	} {
		t.Run(args, func(t *testing.T) {
			t.Setenv(perfPeerEnv, "1")
			_, err := runPerf(t.Context(), io.Discard, strings.Fields(args)...)
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want a line with %q", err, want)
			}
			if s := cli.ExitStatus(err); s != cli.ExitUsage {
				t.Errorf("exit status %d, want %d", s, cli.ExitUsage)
			}
		})
	}
}

// A host without a listener is no fault of the command line.
func TestPerfNoServer(t *testing.T) {
	_, err := runPerf(t.Context(), io.Discard, "send", "bw", "127.0.0.1", "-p", "1")
	if err == nil || cli.ExitStatus(err) != cli.ExitFailed ||
		!strings.Contains(err.Error(), "start `ramjet perf send bw` there first") {
		t.Errorf("%v", err)
	}
}

func TestPerfLoopback(t *testing.T) {
	t.Setenv(perfPeerEnv, "1")
	for args, columns := range map[string]int{
		"send bw -n 100":                                5,
		"send bw -c UD -s 500 -n 100":                   5,
		"write bw -c UC -n 100 -s 5000":                 5,
		"write bw -n 100 -q 3 -b -l 4 -Q 4 -I 64 -s 64": 5,
		"send lat -n 50":                                9,
		"write lat -n 50 -e":                            9,
		"read lat -n 50 -s 4096 -m 1024":                9,
		"atomic bw -n 50 -A CMP_AND_SWAP":               5,
		"atomic lat -D 10ms":                            9,
		"read bw -a -n 3 -t 2 --runs 2":                 5,
	} {
		t.Run(args, func(t *testing.T) {
			out, err := runPerf(t.Context(), io.Discard, append(strings.Fields(args), "--loopback")...)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
			want := 3
			if strings.Contains(args, "-a ") {
				want = 2 + 23
			}
			if len(lines) < want || !strings.HasPrefix(lines[1], " #bytes") {
				t.Fatalf("output:\n%s", out)
			}
			for _, l := range lines[2:want] {
				if f := strings.Fields(l); len(f) != columns {
					t.Errorf("%d columns, want %d: %s", len(f), columns, l)
				}
			}
		})
	}
}

func TestPerfJSON(t *testing.T) {
	t.Setenv(perfPeerEnv, "1")
	for _, mode := range []string{"bw", "lat"} {
		out, err := runPerf(t.Context(), io.Discard, "send", mode, "--loopback", "--json", "-D", "20ms", "-s", "64",
			"--runs", "3", "--compare")
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Devices []string
			Results []struct {
				Config  map[string]any
				Median  map[string]float64
				Runs    []map[string]any
				Compare []struct {
					Name, Unit, Error  string
					Value, Ours, Ratio float64
				}
			}
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if len(got.Devices) != 1 || !strings.HasPrefix(got.Devices[0], "roce:127.") || len(got.Results) != 1 ||
			len(got.Results[0].Runs) != 3 {
			t.Fatalf("%s", out)
		}
		r := got.Results[0]
		keys := []string{"bytes", "iterations", "bw_peak_mib_per_second", "bw_average_mib_per_second", "msg_rate_mpps"}
		if mode == "lat" {
			keys = []string{"bytes", "iterations", "t_min_usec", "t_max_usec", "t_typical_usec", "t_avg_usec",
				"p99_usec", "p99_9_usec"}
		}
		for _, k := range keys {
			if r.Median[k] <= 0 {
				t.Errorf("%s: %s is %v", mode, k, r.Median[k])
			}
		}
		if r.Config["op"] != "send" || r.Config["transport"] != "RC" || len(r.Compare) < 2 {
			t.Errorf("%s", out)
		}
		for _, run := range r.Runs {
			times := []any{run["elapsed_ns"]}
			if trips, ok := run["round_trip"].(map[string]any); ok {
				times = append(times, trips["min_ns"], trips["p50_ns"], trips["p99_9_ns"], trips["mean_ns"])
			}
			for i, v := range times {
				if ns, ok := v.(float64); !ok || ns <= 0 {
					t.Errorf("%s: time %d of %v is %v", mode, i, run, v)
				}
			}
		}
		for _, c := range r.Compare {
			if c.Error == "" && (c.Value <= 0 || c.Ours <= 0 || c.Ratio <= 0 || c.Unit == "") {
				t.Errorf("%+v", c)
			}
		}
	}
}

// Server and client as two users have them, with a recording.
func TestPerfHost(t *testing.T) {
	host := perf.LoopbackAddress().String()
	r, w := io.Pipe()
	type result struct {
		out string
		err error
	}
	served := make(chan result, 1)
	go func() {
		out, err := runPerf(t.Context(), w, "write", "lat", "-p", "0")
		w.CloseWithError(io.EOF)
		served <- result{out, err}
	}()
	buf := make([]byte, 1024)
	n, err := r.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, r)
	port := regexp.MustCompile(`port (\d+) `).FindStringSubmatch(string(buf[:n]))
	if port == nil {
		t.Fatalf("no port in %q", buf[:n])
	}
	pcap := filepath.Join(t.TempDir(), "a.pcapng")
	out, err := runPerf(t.Context(), io.Discard, "write", "lat", host, "-p", port[1], "-n", "20", "--pcap", pcap)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "\n 2          20 ") {
		t.Errorf("output:\n%s", out)
	}
	if s := <-served; s.err != nil || !strings.Contains(s.out, "RC WRITE lat") {
		t.Errorf("server: %v\n%s", s.err, s.out)
	}
	if info, err := os.Stat(pcap); err != nil || info.Size() < 40*60 {
		t.Errorf("recording: %v, %v", info, err)
	}
}

// --stats writes the figures of the device and its queue pairs, and leaves out zeros.
func TestPerfStats(t *testing.T) {
	t.Setenv(perfPeerEnv, "1")
	var stderr testrun.Buffer // which the second process has, too
	if _, err := runPerf(t.Context(), &stderr, "send", "bw", "--loopback", "-n", "100", "-s", "1000", "-q", "2",
		"--stats"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`(?m)^roce:127\..*:$`, `(?m)^ sent_pkts +\d+ packets +packets sent$`,
		`(?m)^ qp_window +\d+ bytes `} {
		if !regexp.MustCompile(want).MatchString(stderr.String()) {
			t.Errorf("no %q in\n%s", want, stderr.String())
		}
	}
	if n := strings.Count(stderr.String(), "\nqueue pair "); n != 2 || strings.Contains(stderr.String(), " 0 ") {
		t.Errorf("%d queue pairs, or zeros:\n%s", n, stderr.String())
	}
}

// A client of another command is refused, and both sides say so.
func TestPerfOtherCommand(t *testing.T) {
	f := &perfFlags{config: perf.Config{Op: perf.FetchAdd, Mode: perf.Latency}}
	for _, c := range []struct {
		config perf.Config
		ok     bool
	}{
		{perf.Config{Op: perf.CompareSwap, Mode: perf.Latency}, true},
		{perf.Config{Op: perf.FetchAdd, Mode: perf.Latency}, true},
		{perf.Config{Op: perf.FetchAdd, Mode: perf.Bandwidth}, false},
		{perf.Config{Op: perf.Send, Mode: perf.Latency}, false},
	} {
		if err := f.accept(c.config); (err == nil) != c.ok {
			t.Errorf("%v %v: %v", c.config.Op, c.config.Mode, err)
		}
	}
}

func TestPerfTable(t *testing.T) {
	t.Setenv(perfPeerEnv, "1")
	type table struct {
		device, only string
		lines        int // references, without cubic's
		cubic        int // lines of cubic
	}
	tables := []table{{"roce:", "RC SEND, 64 B, round trip, polling", 2, 0}}
	if runtime.GOOS == "linux" {
		tables = append(tables, table{"roce:", "RC SEND, 1 MiB, MTU 4096", 2, 1},
			table{"iwarp:", "SEND, 1 MiB, long FPDUs", 1, 1})
	}
	refused := baseline.PermitsCongestion("cubic")
	for _, c := range tables {
		out, err := runPerf(t.Context(), io.Discard, "table", "--runs", "2", "-D", "5ms", "-d", c.device, "--only",
			c.only)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		want, head := 4+c.lines+c.cubic, 2 // the title, an empty line, two lines of head, the references
		if refused != nil && c.cubic > 0 {
			if !strings.Contains(out, "\nLeft out is what needs congestion control \"cubic\": ") {
				t.Errorf("%v, and the table does not say so:\n%s", refused, out)
			}
			want, head = 6+c.lines, 4
		}
		if len(lines) != want {
			t.Fatalf("%d lines, want %d:\n%s", len(lines), want, out)
		}
		for _, l := range lines[head:] {
			if n := strings.Count(l, "|"); n != 10 || strings.Contains(l, "failed") {
				t.Errorf("%d bars: %s", n, l)
			}
		}
	}
}
