// SPDX-License-Identifier: Apache-2.0

package iwarp_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/iwarp"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// vanishing is a queue pair whose device has a region of memory that Go does not own, and its
// peer, with as much memory that stays.
type vanishing struct {
	t     *testing.T
	mem   []byte
	devs  [2]*verbs.Device
	qps   [2]*verbs.QP
	cqs   [2]*verbs.CQ
	mrs   [2]*verbs.MR
	words [2]*verbs.MR // of the message that the stream waits with
}

const (
	own, peer = 0, 1
	// vanishBytes is more than sockets and links hold, so that a stream which waits is in the
	// middle of it.
	vanishBytes = 32 << 20
)

func newVanishing(t *testing.T, open func(testing.TB) *verbs.Device) *vanishing {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	v := &vanishing{t: t}
	var err error
	v.mem, err = unix.Mmap(-1, 0, vanishBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	must(err)
	t.Cleanup(func() { unix.Munmap(v.mem) })
	var eps [2]verbs.Endpoint
	all := verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic
	for i := range v.devs {
		v.devs[i] = open(t)
		pd, err := v.devs[i].AllocPD()
		must(err)
		v.cqs[i], err = v.devs[i].CreateCQ(16, nil)
		must(err)
		v.qps[i], err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: v.cqs[i], RecvCQ: v.cqs[i],
			Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8}})
		must(err)
		eps[i], err = v.qps[i].Endpoint(0)
		must(err)
		if i == own {
			v.mrs[i], err = pd.RegMR(v.mem, all, verbs.External(1<<32))
		} else {
			v.mrs[i], err = pd.RegMR(make([]byte, vanishBytes), all)
		}
		must(err)
		v.words[i], err = pd.RegMR(make([]byte, 8), all)
		must(err)
	}
	must(v.qps[own].Connect(eps[own], eps[peer], &pair.Patient))
	must(v.qps[peer].Connect(eps[peer], eps[own], &pair.Patient))
	return v
}

func (v *vanishing) send(who int, wr verbs.SendWR) {
	v.t.Helper()
	wr.Flags |= verbs.Signaled
	if err := v.qps[who].PostSend(&wr); err != nil {
		v.t.Fatal(err)
	}
}

func (v *vanishing) receive(who int, wr verbs.RecvWR) {
	v.t.Helper()
	if err := v.qps[who].PostRecv(&wr); err != nil {
		v.t.Fatal(err)
	}
}

// stop has the stream of a side wait with a message that has no receive yet.
func (v *vanishing) stop(who int) {
	v.send(who, verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{v.words[who].SGE(0, 8)}})
}

// settle waits until a side sends nothing more.
func (v *vanishing) settle(who int) {
	sent := func() uint64 { return loopback.Counter(v.t, v.devs[who], "sent_bytes") }
	for before, same := uint64(0), 0; same < 5; time.Sleep(10 * time.Millisecond) {
		if n := sent(); n == before && n > 1<<10 {
			same++
		} else {
			before, same = n, 0
		}
	}
}

// vanish takes the memory away, as munmap does, but so that nothing else can be mapped there.
func (v *vanishing) vanish() {
	v.t.Helper()
	if err := unix.Mprotect(v.mem, unix.PROT_NONE); err != nil {
		v.t.Fatal(err)
	}
}

// goOn gives the stream to a side the receive that it waits for.
func (v *vanishing) goOn(who int) {
	v.receive(who, verbs.RecvWR{SGL: []verbs.SGE{v.words[who].SGE(0, 8)}})
}

// wants waits for the completion of work request 1 of a side.
func (v *vanishing) wants(who int, want verbs.Status) {
	v.t.Helper()
	for {
		var wc [1]verbs.WC
		if _, err := v.cqs[who].Wait(bounded(v.t), wc[:]); err != nil {
			v.t.Fatal(err)
		}
		if wc[0].ID == 1 {
			if wc[0].Status != want {
				v.t.Errorf("%v: %v, want %v", wc[0].Op, wc[0].Status, want)
			}
			return
		}
	}
}

// vanishCases take the memory away while a message of 32 MiB is under way, at each way to touch it.
var vanishCases = map[string]func(v *vanishing, sge func(who int) []verbs.SGE){
	"WRITE to it": func(v *vanishing, sge func(int) []verbs.SGE) {
		v.stop(peer)
		v.send(peer, verbs.SendWR{ID: 1, Op: verbs.OpWrite, SGL: sge(peer), Remote: v.mrs[own].Remote()})
		v.settle(peer)
		v.vanish()
		v.goOn(own)
		v.wants(peer, verbs.StatusRemoteAccessError)
	},
	"SEND to it": func(v *vanishing, sge func(int) []verbs.SGE) {
		v.stop(peer)
		v.send(peer, verbs.SendWR{Op: verbs.OpSend, SGL: sge(peer)})
		v.settle(peer)
		v.vanish()
		v.goOn(own)
		v.receive(own, verbs.RecvWR{ID: 1, SGL: sge(own)})
		v.wants(own, verbs.StatusLocalProtectionError)
	},
	"READ to it": func(v *vanishing, sge func(int) []verbs.SGE) {
		v.stop(peer)
		v.send(own, verbs.SendWR{ID: 1, Op: verbs.OpRead, SGL: sge(own), Remote: v.mrs[peer].Remote()})
		v.settle(peer)
		v.vanish()
		v.goOn(own)
		v.wants(own, verbs.StatusLocalProtectionError)
	},
	"WRITE from it": func(v *vanishing, sge func(int) []verbs.SGE) {
		v.stop(own)
		v.send(own, verbs.SendWR{ID: 1, Op: verbs.OpWrite, SGL: sge(own), Remote: v.mrs[peer].Remote()})
		v.settle(own)
		v.vanish()
		v.goOn(peer)
		v.wants(own, verbs.StatusLocalProtectionError)
	},
	"SEND from it": func(v *vanishing, sge func(int) []verbs.SGE) {
		v.stop(own)
		v.send(own, verbs.SendWR{ID: 1, Op: verbs.OpSend, SGL: sge(own)})
		v.settle(own)
		v.vanish()
		v.goOn(peer)
		v.receive(peer, verbs.RecvWR{SGL: sge(peer)})
		v.wants(own, verbs.StatusLocalProtectionError)
	},
	"READ from it": func(v *vanishing, sge func(int) []verbs.SGE) {
		v.stop(own)
		v.send(peer, verbs.SendWR{ID: 1, Op: verbs.OpRead, SGL: sge(peer), Remote: v.mrs[own].Remote()})
		v.settle(own)
		v.vanish()
		v.goOn(peer)
		v.wants(peer, verbs.StatusRemoteOperationError)
	},
	"FETCH_ADD on it": func(v *vanishing, _ func(int) []verbs.SGE) {
		v.vanish()
		v.send(peer, verbs.SendWR{ID: 1, Op: verbs.OpFetchAdd, SGL: []verbs.SGE{v.words[peer].SGE(0, 8)},
			Remote: v.mrs[own].Remote()})
		v.wants(peer, verbs.StatusRemoteAccessError)
	},
	"FETCH_ADD to it": func(v *vanishing, _ func(int) []verbs.SGE) {
		v.vanish()
		v.send(own, verbs.SendWR{ID: 1, Op: verbs.OpFetchAdd, SGL: []verbs.SGE{v.mrs[own].SGE(0, 8)},
			Remote: v.words[peer].Remote()})
		v.wants(own, verbs.StatusLocalProtectionError)
	},
}

// TestMemoryVanishes has memory that Go does not own vanish while messages from and to it are under
// way: their work requests fail, and not the process.
func TestMemoryVanishes(t *testing.T) {
	t.Parallel()
	const child = "RAMJET_TEST_VANISH"
	ca := newCA(t)
	carriers := map[string]func(testing.TB) *verbs.Device{
		"TCP":             opener(nil),
		"TCP without CRC": opener(&iwarp.Options{NoCRC: true}),
		"TCP, markers":    opener(&iwarp.Options{Markers: true}),
		"TLS": func(t testing.TB) *verbs.Device {
			dev, _ := openTLS(t, ca, nil)
			return dev
		},
		"SCTP": func(t testing.TB) *verbs.Device {
			dev, _ := openSCTP(t)
			return dev
		},
	}
	if open := carriers[os.Getenv(child)]; open != nil {
		for name, f := range vanishCases {
			t.Run(name, func(t *testing.T) {
				v := newVanishing(t, open)
				f(v, func(who int) []verbs.SGE { return []verbs.SGE{v.mrs[who].SGE(0, vanishBytes)} })
			})
		}
		return
	}
	for carrier := range carriers {
		t.Run(carrier, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestMemoryVanishes$", "-test.timeout=10m")
			cmd.Env = append(os.Environ(), child+"="+carrier)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%.2000s", err, out)
			}
		})
	}
}
