// SPDX-License-Identifier: Apache-2.0

package verbs

// XRCD is an XRC domain: shared receive queues and target queue pairs that can be used together
// (IBTA annex A14).
type XRCD struct {
	object
	dev *Device
	drv xrcdDriver
}

// OpenXRCD opens an XRC domain of the device.
func (d *Device) OpenXRCD() (x *XRCD, err error) {
	if d.calls != nil {
		end := d.calls.Begin("ibv_open_xrcd", callArg{"context", d})
		defer func() { end(x, err) }()
	}
	x = &XRCD{dev: d}
	if err := x.use("open_xrcd", &d.object); err != nil {
		return nil, err
	}
	if x.drv, err = d.drv.OpenXRCD(); err != nil {
		x.unuse()
		return nil, wrap("open_xrcd", err)
	}
	return x, nil
}

// Device returns the device of the domain.
func (x *XRCD) Device() *Device { return x.dev }

// CreateTargetQP creates the target side of an XRC connection. It belongs to no protection domain:
// requests are checked against the domain of the shared receive queue that the sender names.
func (x *XRCD) CreateTargetQP(init QPInit) (*QP, error) {
	init.Type = XRCTgt
	return newQP(x.dev, init, x.drv.CreateTargetQP, &x.object, callArg{"xrcd", x})
}

// Close closes the domain; ErrBusy while queues of it are open.
func (x *XRCD) Close() error {
	return x.dev.logClose("ibv_close_xrcd", "xrcd", x, func() error {
		return x.close("close_xrcd", func() error { return wrap("close_xrcd", x.drv.Close()) })
	})
}
