// SPDX-License-Identifier: Apache-2.0

package memhub

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// Side is a device with the objects that any queue pair of it needs. A side on a [Hub] has a queue pair, too.
type Side struct {
	T    *testing.T
	Port *Port
	Dev  *verbs.Device
	PD   *verbs.PD
	CQ   *verbs.CQ
	MR   *verbs.MR
	QP   *verbs.QP
	EP   verbs.Endpoint
}

// Open fills in the side of a device: its region has n bytes.
func (s *Side) Open(t *testing.T, d driver.Device, n int) {
	t.Helper()
	s.T, s.Dev = t, driver.NewDevice(d)
	t.Cleanup(func() { s.Dev.Close() })
	var err error
	s.PD, err = s.Dev.AllocPD()
	s.OK(err)
	s.CQ, err = s.Dev.CreateCQ(64, &verbs.CQOptions{Spin: -1})
	s.OK(err)
	s.MR, err = s.PD.RegMR(make([]byte, n), verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
	s.OK(err)
}

// AddQP makes the side's queue pair.
func (s *Side) AddQP() {
	s.T.Helper()
	var err error
	s.QP, err = s.PD.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: s.CQ, RecvCQ: s.CQ})
	s.OK(err)
	s.EP, err = s.QP.Endpoint(0)
	s.OK(err)
}

// Connect connects the queue pairs of two sides.
func (s *Side) Connect(to *Side) {
	s.T.Helper()
	s.OK(s.QP.Connect(s.EP, to.EP, &pair.Patient))
	s.OK(to.QP.Connect(to.EP, s.EP, &pair.Patient))
}

// OK ends the test if there is an error.
func (s *Side) OK(err error) {
	s.T.Helper()
	if err != nil {
		s.T.Fatal(err)
	}
}

// Write posts a signaled WRITE of n bytes.
func (s *Side) Write(to *Side, n int) {
	s.T.Helper()
	s.OK(s.QP.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{s.MR.SGE(0, n)},
		Remote: to.MR.Remote()}))
}

// Wait waits for a completion, asleep.
func (s *Side) Wait() verbs.WC {
	s.T.Helper()
	var wc [1]verbs.WC
	_, err := s.CQ.Wait(s.T.Context(), wc[:])
	s.OK(err)
	return wc[0]
}

// Asleep waits until the device's goroutine sleeps at the port.
func (s *Side) Asleep() {
	s.T.Helper()
	s.Eventually(func() bool { return s.Port.Waiting.Load() == 1 }, "the goroutine sleeps at the port")
}

// Eventually polls for a condition that must come true.
func (s *Side) Eventually(cond func() bool, what string) {
	s.T.Helper()
	for end := time.Now().Add(2 * time.Minute); !cond(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(end) {
			s.T.Fatal("never: " + what)
		}
	}
}
