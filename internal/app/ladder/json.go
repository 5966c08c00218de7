// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/calllog"
)

// Report is a ladder in JSON. Times are of the capture's clock, in UTC, and since its first packet in nanoseconds.
type Report struct {
	Start         time.Time            `json:"start"`
	DurationNS    int64                `json:"duration_ns"`
	Frames        int                  `json:"frames"`
	Packets       int                  `json:"packets"`
	Other         int                  `json:"other_frames"`
	Truncated     int                  `json:"truncated_frames"`
	Fragments     int                  `json:"ip_fragments"`
	Incomplete    bool                 `json:"incomplete"` // the file ends in the middle of a frame
	Conversations []ReportConversation `json:"conversations"`
	Columns       []ReportColumn       `json:"columns,omitempty"` // without them: conversations alone
	Rows          []ReportRow          `json:"rows,omitempty"`
	LeftOut       int                  `json:"packets_left_out,omitempty"` // beyond --limit
	CallsLeftOut  int                  `json:"calls_left_out,omitempty"`
}

// ReportConversation is a conversation in JSON.
type ReportConversation struct {
	Number  int            `json:"number"`
	Fabric  string         `json:"fabric"`
	Service string         `json:"service"`
	A       ReportEnd      `json:"a"`
	B       ReportEnd      `json:"b"`
	Packets int            `json:"packets"`
	Bytes   int64          `json:"bytes"` // of frames on the wire
	FirstNS int64          `json:"first_ns"`
	LastNS  int64          `json:"last_ns"`
	Marks   map[string]int `json:"marks"`
	Ending  string         `json:"ending,omitempty"`
	Drawn   bool           `json:"drawn"`
}

// ReportEnd is an end of a conversation in JSON.
type ReportEnd struct {
	Host string  `json:"host"`
	Node string  `json:"node,omitempty"`
	QP   *uint32 `json:"qp,omitempty"`
	Port uint16  `json:"port,omitempty"`
}

// ReportColumn is a column in JSON.
type ReportColumn struct {
	Name    string   `json:"name"`
	Details []string `json:"details,omitempty"`
	Switch  bool     `json:"switch"`
}

// ReportRow is a row in JSON. From, To and Via are columns, from 0.
type ReportRow struct {
	Frame        int      `json:"frame,omitempty"`      // calls have none
	AtNS         int64    `json:"at_ns"`                // calls before the first packet have a negative one
	UntilNS      int64    `json:"until_ns,omitempty"`   // of several packets: when the last one was sent
	ArrivedNS    int64    `json:"arrived_ns,omitempty"` // where both ends were recorded
	From         int      `json:"from"`
	To           int      `json:"to"`
	Via          []int    `json:"via,omitempty"`
	Conversation int      `json:"conversation"`
	Operation    string   `json:"operation"`
	Facts        []string `json:"facts,omitempty"`
	Notes        []string `json:"notes,omitempty"`
	Details      []string `json:"details,omitempty"`
	Marks        []string `json:"marks,omitempty"`
	FirstPSN     *uint32  `json:"first_psn,omitempty"`
	LastPSN      *uint32  `json:"last_psn,omitempty"`
	Packets      int      `json:"packets"`
	PayloadBytes int64    `json:"payload_bytes"`
	Acks         int      `json:"acks,omitempty"`
	Repeats      int      `json:"repeats,omitempty"` // how many times more the rows_above came
	RowsAbove    int      `json:"rows_above,omitempty"`

	Calls int         `json:"calls,omitempty"` // calls and completions
	Call  *ReportCall `json:"call,omitempty"`
}

// ReportCall is a call in JSON, with the fields of docs/log.md.
type ReportCall struct {
	Log        string         `json:"log"`
	Line       int            `json:"line"`
	PID        int            `json:"pid"`
	TID        int            `json:"tid,omitempty"`
	Call       string         `json:"call"`
	Completion calllog.Fields `json:"completion,omitempty"` // one of the completions that the call has returned
	Args       calllog.Fields `json:"args"`
	Begins     bool           `json:"begins,omitempty"` // it has not returned
	Result     any            `json:"result,omitempty"`
	Errno      string         `json:"errno,omitempty"`
	Error      string         `json:"error,omitempty"`
	DurationNS int64          `json:"duration_ns"`
}

func (c *Call) report() *ReportCall {
	return &ReportCall{Log: c.Log, Line: c.Line, PID: c.PID, TID: c.TID, Call: c.Entry.Call, Completion: c.WC,
		Args: c.Args, Begins: c.Begins, Result: c.Result, Errno: c.Errno, Error: c.Error, DurationNS: int64(c.Took)}
}

// Report returns the survey in JSON, of the conversations in list, and with a ladder if l is not nil.
func (s *Survey) Report(list []*Conversation, l *Ladder) *Report {
	r := &Report{Start: s.Start, DurationNS: int64(s.End.Sub(s.Start)), Frames: s.Counts.Frames,
		Packets: s.Counts.Packets, Other: s.Counts.Other,
		Truncated: s.Counts.Truncated, Fragments: s.Counts.Fragments, Incomplete: s.Cut,
		Conversations: []ReportConversation{}}
	drawn := make(map[*Conversation]bool)
	if l != nil {
		for _, c := range l.Conversations {
			drawn[c] = true
		}
		for _, c := range l.Columns {
			r.Columns = append(r.Columns, ReportColumn(c))
		}
		for i := range l.Rows {
			r.Rows = append(r.Rows, l.Rows[i].report())
		}
		r.LeftOut, r.CallsLeftOut = l.LeftOut, l.CallsLeftOut
	}
	for _, c := range list {
		j := ReportConversation{Number: c.Number, Fabric: c.Fabric.String(), Service: c.Service, A: c.A.report(),
			B: c.B.report(), Packets: c.Packets, Bytes: c.Bytes, FirstNS: int64(c.First.Sub(s.Start)),
			LastNS: int64(c.Last.Sub(s.Start)),
			Marks:  map[string]int{}, Ending: c.Ending(), Drawn: drawn[c]}
		for i, n := range c.Tally {
			if n > 0 {
				j.Marks[markNames[i].json] = n
			}
		}
		r.Conversations = append(r.Conversations, j)
	}
	return r
}

func (e End) report() ReportEnd {
	j := ReportEnd{Host: e.Host.String(), Node: e.Node, Port: e.Port}
	if e.Known {
		n := uint32(e.QP)
		j.QP = &n
	}
	return j
}

func (r *Row) report() ReportRow {
	j := ReportRow{Frame: r.Frame, AtNS: int64(r.At), ArrivedNS: int64(r.Arrived), From: r.From, To: r.To, Via: r.Via,
		Conversation: r.Number, Operation: r.Op, Facts: r.Facts, Notes: r.Notes, Details: r.More,
		Marks: r.Marks.Names(), Packets: r.Packets,
		PayloadBytes: r.Bytes, Acks: r.Acks,
		Repeats: r.Repeats, RowsAbove: r.Rows, Calls: r.Calls}
	if r.Call != nil {
		j.Call = r.Call.report()
	}
	if r.Packets+r.Calls > 1 {
		j.UntilNS, j.ArrivedNS = int64(r.Until), 0
	}
	if r.HasPSN {
		first, last := uint32(r.FirstPSN), uint32(r.LastPSN)
		j.FirstPSN, j.LastPSN = &first, &last
	}
	return j
}
