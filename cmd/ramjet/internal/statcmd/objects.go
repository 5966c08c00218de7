// SPDX-License-Identifier: Apache-2.0

package statcmd

import (
	"fmt"
	"strings"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Objects that few programs have.

func (o *statOutput) mws(d *statDevice) {
	o.heading(d)
	o.table("KEY\tTYPE\tPD\tMR\tADDR\tBYTES\tACCESS", len(d.MWs), func(i int) string {
		m := &d.MWs[i]
		if m.Region == 0 {
			return fmt.Sprintf("%s\t%v\t%d\t-\t-\t-\t-", keyText(m.Key), m.Type, m.PD)
		}
		return fmt.Sprintf("%s\t%v\t%d\t%s\t0x%x\t%d\t%s", keyText(m.Key), m.Type, m.PD, keyText(m.Region), m.Addr,
			m.Len, strings.TrimPrefix(accessText(m.Access), "local r "))
	})
	fmt.Fprintln(&o.b)
}

func (o *statOutput) srqs(d *statDevice) {
	o.heading(d)
	o.table("SRQN\tTYPE\tPD\tWR\tLIMIT\tLQPN", len(d.SRQs), func(i int) string {
		s := &d.SRQs[i]
		typ := "BASIC"
		if s.XRC != 0 {
			typ = fmt.Sprintf("XRC %d", s.XRC)
		}
		return fmt.Sprintf("%d\t%s\t%d\t%d\t%d\t%s", s.Num, typ, s.PD, s.Capacity, s.Limit, d.receivers(s.Num))
	})
	fmt.Fprintln(&o.b)
}

// receivers returns the queue pairs that receive from a shared queue: three of them, and how many others.
func (d *statDevice) receivers(srq uint32) string {
	const most = 3
	var names []string
	others := 0
	for i := range d.QPs {
		switch {
		case d.QPs[i].SRQ != srq:
		case len(names) < most:
			names = append(names, fmt.Sprint(d.QPs[i].QPN))
		default:
			others++
		}
	}
	if others > 0 {
		names = append(names, fmt.Sprintf("and %d others", others))
	}
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, " ")
}

func (o *statOutput) ahs(d *statDevice) {
	o.heading(d)
	o.table("PD\tPORT\tSL\tPEER", len(d.AHs), func(i int) string {
		a := &d.AHs[i]
		peer := a.DGID.Addr().String()
		if a.DGID == (verbs.GID{}) {
			peer = fmt.Sprintf("LID %d", a.DLID)
		}
		return fmt.Sprintf("%d\t%d\t%d\t%s", a.PD, a.Port, a.SL, peer)
	})
	fmt.Fprintln(&o.b)
}
