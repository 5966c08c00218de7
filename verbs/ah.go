// SPDX-License-Identifier: Apache-2.0

package verbs

// AHAttr is an address vector: the path to a destination (IBTA 11.2.2). A vector with a DGID is global: its
// packets have a GRH, or on Ethernet the IP header in its place, which the fields up to FlowLabel
// describe. On fabrics with LIDs, one without a DGID leads to DLID in the same subnet.
type AHAttr struct {
	DGID         GID   // the destination
	SGIDIndex    int   // row of our GID table
	HopLimit     uint8 // IP time to live; 0: the system's default
	TrafficClass uint8 // IP traffic class
	FlowLabel    uint32
	SL           uint8  // service level
	DLID         uint16 // on fabrics that have LIDs
	SrcPathBits  uint8  // low bits of our LID, [PortAttr.LMC] of them
	Port         int    // 0: the port of the sending queue pair or agent; for an address handle, 1
}

// Global reports whether packets have a GRH, or a header in its place.
func (a *AHAttr) Global() bool { return a.DGID != GID{} }

// AH is an address handle: the destination of a datagram.
type AH struct {
	object
	dev *Device
	drv ahDriver
}

// CreateAH makes an address handle.
func (pd *PD) CreateAH(attr AHAttr) (ah *AH, err error) {
	if pd.dev.calls != nil {
		end := pd.dev.calls.Begin("ibv_create_ah", callArg{"pd", pd}, callArg{"attr", attr})
		defer func() { end(ah, err) }()
	}
	ah = &AH{dev: pd.dev}
	if err := ah.use("create_ah", &pd.object); err != nil {
		return nil, err
	}
	if ah.drv, err = pd.drv.CreateAH(attr); err != nil {
		ah.unuse()
		return nil, wrap("create_ah", err)
	}
	return ah, nil
}

// AHFromWC makes an address handle for replying to the datagram of wc, which a queue pair of a port
// received. grh is the first 40 bytes of its receive buffer (ibv_init_ah_from_wc).
func (pd *PD) AHFromWC(port int, wc *WC, grh []byte) (*AH, error) {
	const op = "init_ah_from_wc"
	attr := AHAttr{SL: wc.SL, DLID: wc.SLID, SrcPathBits: wc.DLIDPathBits, Port: port}
	switch {
	case wc.Flags&WithGRH == 0 && wc.SLID == 0:
		return nil, opErr(op, ErrInvalid, "the completion has neither a GRH nor a LID")
	case wc.Flags&WithGRH == 0:
		return pd.CreateAH(attr)
	case len(grh) < 40:
		return nil, opErr(op, ErrInvalid, "a GRH has 40 bytes")
	}
	gids, err := pd.dev.GIDs(port)
	if err != nil {
		return nil, err
	}
	from, to := grhAddresses(grh)
	attr.DGID = from
	for _, g := range gids {
		if g.GID == to { // else it was sent to a multicast group
			attr.SGIDIndex = g.Index
		}
	}
	return pd.CreateAH(attr)
}

// grhAddresses returns the sender and the receiver of a received datagram. A RoCEv2 packet over IPv4 leaves
// its IP header in the last 20 of the 40 bytes (IBTA annex A17.4.5.1).
func grhAddresses(grh []byte) (from, to GID) {
	if grh[20]>>4 == 4 && grh[0]>>4 != 6 {
		from[10], from[11], to[10], to[11] = 0xff, 0xff, 0xff, 0xff
		copy(from[12:], grh[32:36])
		copy(to[12:], grh[36:40])
		return from, to
	}
	return GID(grh[8:24]), GID(grh[24:40])
}

// Close destroys the handle; datagrams already posted still go out.
func (ah *AH) Close() error {
	return ah.dev.logClose("ibv_destroy_ah", "ah", ah, func() error {
		return ah.close("destroy_ah", func() error { return wrap("destroy_ah", ah.drv.Destroy()) })
	})
}
