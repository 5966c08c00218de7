// SPDX-License-Identifier: Apache-2.0

package verbs

// MWType is the type of a memory window (IBTA 10.6.7).
type MWType uint8

const (
	MWType1 MWType = iota + 1 // bound with [QP.BindMW]; belongs to the protection domain
	MWType2                   // bound with an [OpBindMW] work request; belongs to the queue pair (type 2B)
)

// String returns 1 or 2B.
func (t MWType) String() string { return name([]string{"", "1", "2B"}, t) }

// MW is a memory window: a key to a part of a region that can be bound and revoked without a
// registration (IBTA 10.6.7).
type MW struct {
	object
	dev *Device
	typ MWType
	drv mwDriver
}

// MWBindInfo is the binding of a window. Length 0 unbinds a type 1 window.
type MWBindInfo struct {
	MW     *MW
	MR     *MR
	RKey   Key // type 2: its low 8 bits become the low 8 bits of the window's key, its other bits are ignored
	Addr   uint64
	Length uint64
	Access Access
}

// AllocMW allocates a window that is bound to nothing.
func (pd *PD) AllocMW(t MWType) (mw *MW, err error) {
	if pd.dev.calls != nil {
		end := pd.dev.calls.Begin("ibv_alloc_mw", callArg{"pd", pd}, callArg{"type", t})
		defer func() { end(mw, err) }()
	}
	mw = &MW{dev: pd.dev, typ: t}
	if t != MWType1 && t != MWType2 {
		return nil, opErr("alloc_mw", ErrInvalid, "no such window type")
	}
	if err := mw.use("alloc_mw", &pd.object); err != nil {
		return nil, err
	}
	if mw.drv, err = pd.drv.AllocMW(t); err != nil {
		mw.unuse()
		return nil, wrap("alloc_mw", err)
	}
	return mw, nil
}

// Type returns the window's type.
func (mw *MW) Type() MWType { return mw.typ }

// RKey returns the window's current key.
func (mw *MW) RKey() Key { return mw.drv.RKey() }

// NextRKey returns the key with its low 8 bits, which are the program's, incremented.
func (mw *MW) NextRKey() Key {
	k := mw.drv.RKey()
	return k&^0xff | (k+1)&0xff
}

// Close unbinds and deallocates the window.
func (mw *MW) Close() error {
	return mw.dev.logClose("ibv_dealloc_mw", "mw", mw, func() error {
		return mw.close("dealloc_mw", func() error { return wrap("dealloc_mw", mw.drv.Dealloc()) })
	})
}
