// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/app/perf/baseline"
)

// The benchmarks run two processes: the test binary starts itself with a role
// in this variable, and the child prints the address it serves.
const roleVariable = "NETIO_BENCH_ROLE"

// role is the work of the child: a baseline, or one of the functions below.
type role struct {
	Name     string
	Baseline baseline.Config
}

func TestMain(m *testing.M) {
	text := os.Getenv(roleVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	var r role
	err := json.Unmarshal([]byte(text), &r)
	if err == nil {
		err = r.serve()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (r role) serve() error {
	local := netip.MustParseAddrPort("127.0.0.2:0")
	if r.Name == "baseline" {
		s, err := baseline.Listen(r.Baseline, local)
		if err != nil {
			return err
		}
		fmt.Println(s.Addr())
		return s.Serve(context.Background())
	}
	s, err := Listen(local, Options{})
	if err != nil {
		return err
	}
	fmt.Println(s.LocalAddr())
	switch r.Name {
	case "echo":
		return echo(s, func() error { return nil })
	case "echo sleeping":
		return echo(s, s.Wait)
	}
	return sink(s)
}

// start runs the child until stop is called, or the benchmark is over.
func start(b *testing.B, r role) (remote netip.AddrPort, stop func()) {
	b.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	if childCPU != nil {
		_ = unix.SchedSetaffinity(cmd.Process.Pid, childCPU) // as good as it gets
	}
	stop = sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	b.Cleanup(stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return netip.MustParseAddrPort(line[:len(line)-1]), stop
}

// measure runs a baseline in both processes.
func measure(b *testing.B, c baseline.Config) baseline.Result {
	b.Helper()
	remote, stop := start(b, role{Name: "baseline", Baseline: c})
	defer stop()
	r, err := baseline.Run(b.Context(), c, netip.MustParseAddrPort("127.0.0.1:0"), remote)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// pin keeps this process on the first processor it may use and its children on
// the second one. Where the scheduler puts two processes decides whether a
// wake-up takes 5 or 25 µs, and so it must be the same for both that are
// compared.
func pin(b *testing.B) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil || all.Count() < 2 {
		b.Logf("not pinned: %d processors (%v)", all.Count(), err)
		return
	}
	var cpus []unix.CPUSet
	for i := 0; len(cpus) < 2; i++ {
		if all.IsSet(i) {
			var one unix.CPUSet
			one.Set(i)
			cpus = append(cpus, one)
		}
	}
	setAffinity(b, &cpus[0])
	childCPU = &cpus[1]
	b.Cleanup(func() {
		childCPU = nil
		setAffinity(b, &all)
	})
}

// childCPU is the set of processors that pin chose, for start.
var childCPU *unix.CPUSet

// setAffinity moves all threads of this process.
func setAffinity(b *testing.B, set *unix.CPUSet) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		b.Fatal(err)
	}
	for _, task := range tasks {
		if id, err := strconv.Atoi(task.Name()); err == nil {
			_ = unix.SchedSetaffinity(id, set) // the thread may be gone
		}
	}
}

// echo answers each datagram, and calls idle when there is none.
func echo(s *Socket, idle func() error) error {
	into, t := make([]Datagrams, s.Features().Batch), s.NewTrain()
	for {
		n, err := s.Recv(into)
		if err != nil {
			return err
		}
		if n == 0 {
			if err := idle(); err != nil {
				return err
			}
		}
		for i := range into[:n] {
			t.Reset(into[i].From)
			t.Begin(len(into[i].Data))
			t.Add(into[i].Data)
			if err := s.Send(t); err != nil {
				return err
			}
		}
	}
}

// sink counts bytes and confirms them each ackEvery receives.
func sink(s *Socket) error {
	const ackEvery = 4
	into, t := make([]Datagrams, s.Features().Batch), s.NewTrain()
	var total uint64
	var ack [8]byte
	receives := 0
	for {
		n, err := s.Recv(into)
		if err != nil {
			return err
		}
		for i := range into[:n] {
			total += uint64(len(into[i].Data))
			if receives++; receives%ackEvery == 0 {
				binary.BigEndian.PutUint64(ack[:], total)
				t.Reset(into[i].From)
				t.Begin(len(ack))
				t.Add(ack[:])
				if err := s.Send(t); err != nil {
					return err
				}
			}
		}
	}
}

// benchmarkRoundTrip alternates between this package and the baseline, and
// compares the medians of each one's medians.
func benchmarkRoundTrip(b *testing.B, name string, kind baseline.Kind, idle func(*Socket) error) {
	for _, pinned := range []bool{true, false} {
		b.Run(fmt.Sprintf("pinned=%v", pinned), func(b *testing.B) {
			if pinned {
				pin(b)
			}
			const slice = 200 * time.Millisecond
			var own, raw, ratios []float64
			for b.Loop() {
				o := float64(roundTrips(b, name, slice, idle))
				r := float64(measure(b, baseline.Config{Kind: kind, Size: roundTripSize, Duration: slice}).Median)
				own, raw, ratios = append(own, o), append(raw, r), append(ratios, o/r)
			}
			b.ReportMetric(middle(own), "median-ns")
			b.ReportMetric(middle(raw), "raw-median-ns")
			b.ReportMetric(middle(own)/middle(raw), "x-raw")
			b.ReportMetric(middle(ratios), "x-raw-paired")
		})
	}
}

func middle(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

const roundTripSize = 64

// roundTrips measures for a while and returns the median.
func roundTrips(b *testing.B, name string, slice time.Duration, idle func(*Socket) error) time.Duration {
	remote, stop := start(b, role{Name: name})
	defer stop()
	s := listen(b, first, Options{})
	defer s.Close()
	t, into := s.NewTrain(), make([]Datagrams, s.Features().Batch)
	message := make([]byte, roundTripSize)
	samples := make([]time.Duration, 0, 1<<17)
	begin := time.Now()
	for last := begin; last.Sub(begin) < slice; {
		t.Reset(remote)
		t.Begin(roundTripSize)
		t.Add(message)
		if err := s.Send(t); err != nil {
			b.Fatal(err)
		}
		for {
			n, err := s.Recv(into)
			if err != nil {
				b.Fatal(err)
			}
			if n > 0 {
				break
			}
			if err := idle(s); err != nil {
				b.Fatal(err)
			}
		}
		now := time.Now()
		samples = append(samples, now.Sub(last))
		last = now
	}
	slices.Sort(samples)
	return samples[len(samples)/2]
}

func BenchmarkRoundTripPolled(b *testing.B) {
	benchmarkRoundTrip(b, "echo", baseline.UDPPolled, func(*Socket) error { return nil })
}

func BenchmarkRoundTripSleeping(b *testing.B) {
	benchmarkRoundTrip(b, "echo sleeping", baseline.UDPSleeping, (*Socket).Wait)
}

// BenchmarkStream sends trains against a window, and compares their datagrams'
// rate with single datagrams of 64 bytes.
func BenchmarkStream(b *testing.B) {
	for _, shape := range []struct{ size, count int }{{4112, 15}, {1040, 62}, {80, 128}, {80, 8}, {80, 1}} {
		b.Run(fmt.Sprintf("%dx%d", shape.size, shape.count), func(b *testing.B) {
			remote, stop := start(b, role{Name: "sink"})
			s := listen(b, first, Options{})
			if max := s.Features().MaxSegments; shape.count > max {
				b.Skipf("a train has at most %d datagrams here", max)
			}
			const window = 16 // trains under way
			t, into := s.NewTrain(), make([]Datagrams, s.Features().Batch)
			header, payload := make([]byte, shape.count*16), make([]byte, 1<<20)
			var sent, confirmed uint64
			train := uint64(shape.size * shape.count)
			b.SetBytes(int64(train))
			for b.Loop() {
				t.Reset(remote)
				for i := range shape.count {
					t.Begin(shape.size)
					if shape.size < 256 {
						t.Add(payload[i*shape.size:][:shape.size])
						continue
					}
					t.Add(header[i*16:][:16])
					t.Add(payload[i*shape.size:][:shape.size-16])
				}
				if err := s.Send(t); err != nil {
					b.Fatal(err)
				}
				sent += train
				for sent-confirmed > window*train {
					n, err := s.Recv(into)
					if err != nil {
						b.Fatal(err)
					}
					for i := range into[:n] {
						confirmed = binary.BigEndian.Uint64(into[i].Data)
					}
				}
			}
			stop()
			rate := float64(b.N*shape.count) / b.Elapsed().Seconds()
			raw := measure(b, baseline.Config{Kind: baseline.UDPPackets, Size: 64, Duration: 300 * time.Millisecond})
			b.ReportMetric(rate/1e6, "Mpkt/s")
			b.ReportMetric(raw.MessagesPerSecond()/1e6, "raw-Mpkt/s")
			b.ReportMetric(rate/raw.MessagesPerSecond(), "x-raw")
		})
	}
}

func BenchmarkRecvEmpty(b *testing.B) {
	s := listen(b, first, Options{})
	into := make([]Datagrams, s.Features().Batch)
	for b.Loop() {
		if n, err := s.Recv(into); n != 0 || err != nil {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkSetDeadline(b *testing.B) {
	for _, waiting := range []bool{false, true} {
		b.Run(fmt.Sprintf("waiting=%v", waiting), func(b *testing.B) {
			s := listen(b, first, Options{})
			deadline := time.Now().Add(time.Hour)
			if waiting {
				go s.Wait()
				time.Sleep(10 * time.Millisecond)
			}
			for b.Loop() {
				deadline = deadline.Add(1)
				s.SetDeadline(deadline)
			}
		})
	}
}
