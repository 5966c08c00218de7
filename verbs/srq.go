// SPDX-License-Identifier: Apache-2.0

package verbs

import "weak"

// SRQInit has the parameters of a new shared receive queue.
type SRQInit struct {
	MaxWR  int
	MaxSGE int
	XRCD   *XRCD // XRC: the domain
	CQ     *CQ   // XRC: where receives complete
}

// SRQAttr are the attributes of a shared receive queue.
type SRQAttr struct {
	MaxWR  int
	MaxSGE int
	Limit  int // EventSRQLimitReached once fewer receives are posted; 0: off
}

// SRQMask says which attributes Modify sets.
type SRQMask uint8

const (
	SRQMaxWR SRQMask = 1 << iota // SRQAttr.MaxWR
	SRQLimit                     // SRQAttr.Limit
)

// SRQ is a shared receive queue (IBTA 10.2.9).
type SRQ struct {
	object
	dev *Device
	drv srqDriver
	pd  *PD
}

// CreateSRQ creates a shared receive queue; with XRCD and CQ set, one for XRC.
func (pd *PD) CreateSRQ(init SRQInit) (s *SRQ, err error) {
	const op = "create_srq"
	if pd.dev.calls != nil {
		end := pd.dev.calls.Begin("ibv_create_srq", callArg{"pd", pd}, callArg{"attr", init})
		defer func() { end(s, err) }()
	}
	if init.MaxWR <= 0 || init.MaxSGE < 0 {
		return nil, opErr(op, ErrInvalid, "MaxWR must be at least 1, and MaxSGE not negative")
	}
	if (init.XRCD == nil) != (init.CQ == nil) {
		return nil, opErr(op, ErrInvalid, "an XRC queue needs both XRCD and CQ")
	}
	if init.XRCD != nil && (init.XRCD.dev != pd.dev || init.CQ.dev != pd.dev) {
		return nil, opErr(op, ErrInvalid, "XRCD or CQ is of another device")
	}
	if init.MaxSGE == 0 {
		init.MaxSGE = 1
	}
	s = &SRQ{dev: pd.dev, pd: pd}
	deps := []*object{&pd.object}
	if init.XRCD != nil {
		deps = append(deps, &init.XRCD.object, &init.CQ.object)
	}
	if err := s.use(op, deps...); err != nil {
		return nil, err
	}
	self, queue := weak.Make(s), pd.dev.events
	events := func(t EventType) { queue.put(queuedEvent{typ: t, srq: self}) }
	if s.drv, err = pd.drv.CreateSRQ(&init, events); err != nil {
		s.unuse()
		return nil, wrap(op, err)
	}
	return s, nil
}

// PostRecv posts one receive.
func (s *SRQ) PostRecv(wr *RecvWR) error {
	if s.dev.calls != nil {
		_, err := s.postRecv(one(wr))
		return err
	}
	_, err := s.drv.PostRecv(one(wr))
	return wrap("post_srq_recv", err)
}

// PostRecvList posts receives in order and returns how many were posted.
func (s *SRQ) PostRecvList(wrs []RecvWR) (int, error) {
	if s.dev.calls != nil {
		return s.postRecv(wrs)
	}
	n, err := s.drv.PostRecv(wrs)
	return n, wrap("post_srq_recv", err)
}

// Modify sets the size or the limit.
func (s *SRQ) Modify(attr SRQAttr, mask SRQMask) error {
	end := s.dev.begin("ibv_modify_srq", callArg{"srq", s}, callArg{"attr", attr}, callArg{"attr_mask", mask})
	err := wrap("modify_srq", s.drv.Modify(attr, mask))
	end(nil, err)
	return err
}

// Query returns the attributes.
func (s *SRQ) Query() SRQAttr { return s.drv.Query() }

// Num returns the number that XRC senders name.
func (s *SRQ) Num() uint32 { return s.drv.Num() }

// Close destroys the queue; ErrBusy while queue pairs use it.
func (s *SRQ) Close() error {
	return s.dev.logClose("ibv_destroy_srq", "srq", s, func() error {
		return s.close("destroy_srq", func() error { return wrap("destroy_srq", s.drv.Destroy()) })
	})
}
