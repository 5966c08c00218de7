// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// Steps are an engine's parts of a change of attributes.
type Steps struct {
	Reset func() // takes the queue pair to RESET
	Fail  func() // takes it to ERR
	// Prepare may refuse the change before anything is applied. It may be nil.
	Prepare func(attr *verbs.QPAttr, mask verbs.QPMask) error
	// Applied follows a change to another state than RESET and ERR.
	Applied func(before verbs.QPState, mask verbs.QPMask)
}

// Change checks a change of attributes and applies it (IBTA 11.2.5.2).
func (p *Pair) Change(attr *verbs.QPAttr, mask verbs.QPMask, s Steps) error {
	next, err := p.checkModify(attr, mask)
	switch {
	case err != nil:
		return err
	case next == verbs.StateReset:
		s.Reset()
		return nil
	case next == verbs.StateError:
		s.Fail()
		return nil
	}
	if s.Prepare != nil {
		if err := s.Prepare(attr, mask); err != nil {
			return err
		}
	}
	before := p.state
	p.apply(attr, mask, next)
	s.Applied(before, mask)
	return nil
}

// checkModify checks a change of attributes before any of it is applied, and returns the state that it leads to.
func (p *Pair) checkModify(attr *verbs.QPAttr, mask verbs.QPMask) (verbs.QPState, error) {
	next, err := driver.CheckTransition(p.Type, p.state, attr, mask)
	if err != nil {
		return next, err
	}
	why, port, row := "", p.port, p.attr.PKeyIndex
	if mask&verbs.MaskPort != 0 {
		if attr.Port < 1 || attr.Port > len(p.dev.Ports) {
			return next, &verbs.OpError{Op: "modify_qp", Err: verbs.ErrInvalid,
				Detail: fmt.Sprintf("Port %d: the device has ports 1 to %d", attr.Port, len(p.dev.Ports))}
		}
		port = &p.dev.Ports[attr.Port-1]
	}
	if mask&verbs.MaskPKeyIndex != 0 {
		row = attr.PKeyIndex
	}
	switch {
	case mask&verbs.MaskPathMTU != 0 && attr.PathMTU.Bytes() > port.MTU:
		why = "PathMTU is larger than the port's active MTU"
	case int(row) >= len(port.PKeys):
		why = "PKeyIndex is beyond the port's P_Key table"
	case mask&verbs.MaskAH != 0 && attr.AH.Port != 0 && attr.AH.Port != port.Num:
		why = "AH.Port is not the port of the queue pair"
	}
	if why != "" {
		return next, &verbs.OpError{Op: "modify_qp", Err: verbs.ErrInvalid, Detail: why}
	}
	return next, nil
}

// apply sets the attributes that mask names, and the state next, which is neither RESET nor ERR.
func (p *Pair) apply(attr *verbs.QPAttr, mask verbs.QPMask, next verbs.QPState) {
	if p.state == verbs.StateSQE && next == verbs.StateRTS {
		p.failure = nil
	}
	a := &p.attr
	set(mask, verbs.MaskAccess, &a.Access, attr.Access)
	set(mask, verbs.MaskPKeyIndex, &a.PKeyIndex, attr.PKeyIndex)
	set(mask, verbs.MaskPort, &a.Port, attr.Port)
	set(mask, verbs.MaskQKey, &a.QKey, attr.QKey)
	set(mask, verbs.MaskAH, &a.AH, attr.AH)
	set(mask, verbs.MaskPathMTU, &a.PathMTU, attr.PathMTU)
	set(mask, verbs.MaskTimeout, &a.Timeout, attr.Timeout)
	set(mask, verbs.MaskRetryCount, &a.RetryCount, attr.RetryCount)
	set(mask, verbs.MaskRNRRetry, &a.RNRRetry, attr.RNRRetry)
	set(mask, verbs.MaskRQPSN, &a.RQPSN, attr.RQPSN)
	set(mask, verbs.MaskSQPSN, &a.SQPSN, attr.SQPSN)
	set(mask, verbs.MaskMaxRdAtomic, &a.MaxRdAtomic, attr.MaxRdAtomic)
	set(mask, verbs.MaskMaxDestRdAtomic, &a.MaxDestRdAtomic, attr.MaxDestRdAtomic)
	set(mask, verbs.MaskMinRNRTimer, &a.MinRNRTimer, attr.MinRNRTimer)
	set(mask, verbs.MaskDestQPN, &a.DestQPN, attr.DestQPN)
	p.setPort()
	if next == verbs.StateSQD && p.state != verbs.StateSQD {
		p.draining = attr.SQDAsyncNotify || mask&verbs.MaskSQDAsyncNotify == 0
	}
	p.state = next
}

// set sets an attribute if the mask names it.
func set[T any](mask, bit verbs.QPMask, to *T, v T) {
	if mask&bit != 0 {
		*to = v
	}
}
