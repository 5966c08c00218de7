// SPDX-License-Identifier: Apache-2.0

package verbs

// AHAttr is an address vector: the way to a destination (IBTA 11.2.2).
type AHAttr struct {
	DGID         GID   // the destination
	SGIDIndex    int   // row of our GID table
	HopLimit     uint8 // IP time to live; 0: the system's default
	TrafficClass uint8 // IP traffic class
	FlowLabel    uint32
	SL           uint8
	DLID         uint16 // InfiniBand only
	Port         int    // 0: the first
}

// AH is an address handle: where a datagram goes.
type AH struct {
	object
	drv AHDriver
}

// CreateAH makes an address handle.
func (pd *PD) CreateAH(attr AHAttr) (*AH, error) {
	ah := &AH{}
	if err := ah.use("create_ah", &pd.object); err != nil {
		return nil, err
	}
	var err error
	if ah.drv, err = pd.drv.CreateAH(attr); err != nil {
		ah.unuse()
		return nil, wrap("create_ah", err)
	}
	return ah, nil
}

// AHFromWC makes an address handle for an answer to the datagram of wc; grh is the first
// 40 bytes of the buffer that it was received in (ibv_init_ah_from_wc).
func (pd *PD) AHFromWC(wc *WC, grh []byte) (*AH, error) {
	const op = "init_ah_from_wc"
	if wc.Flags&WithGRH == 0 || len(grh) < 40 {
		return nil, opErr(op, ErrInvalid, "the completion has no GRH")
	}
	attr := AHAttr{SL: wc.SL, DGID: grhSource(grh)}
	return pd.CreateAH(attr)
}

// grhSource returns the sender of a received datagram. A RoCEv2 packet over IPv4 leaves
// its IP header in the last 20 of the 40 bytes (IBTA annex A17.4.5.1).
func grhSource(grh []byte) (g GID) {
	if grh[20]>>4 == 4 && grh[0]>>4 != 6 {
		g[10], g[11] = 0xff, 0xff
		copy(g[12:], grh[32:36])
		return g
	}
	copy(g[:], grh[8:24])
	return g
}

// Driver returns what implements the handle.
func (ah *AH) Driver() AHDriver { return ah.drv }

// Close destroys the handle; datagrams already posted still go out.
func (ah *AH) Close() error {
	return ah.close("destroy_ah", func() error { return wrap("destroy_ah", ah.drv.Destroy()) })
}
