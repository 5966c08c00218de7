// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ramjet-rdma/ramjet/internal/app/capture"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// captures are captures of other stacks: Linux rxe and siw.
var captures = []string{"../../../wire/ib/testdata/roce-mtu1024.pcap", "../../../wire/ib/testdata/roce-mtu4096.pcap",
	"../../../wire/iwarp/testdata/iwarp.pcap"}

// TestRxe: the conversations of a capture of Linux rxe are the runs of programs that its description names: each queue
// pair number was used once, at both ends.
func TestRxe(t *testing.T) {
	s, err := Take(File(captures[0]))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	packets := 0
	for _, c := range s.Conversations {
		got = append(got, fmt.Sprintf("%s %s %s", c.Service, c.A.Queue(), c.B.Queue()))
		packets += c.Packets
		if c.Tally.Total() != 0 {
			t.Errorf("conversation %d: %v", c.Number, c.Tally.String())
		}
	}
	want := []string{"RC QP 0x000011 QP 0x000011", "UC  QP 0x000012", "UD QP 0x000013 QP 0x000013",
		"RC QP 0x000014 QP 0x000014", "UC  QP 0x000015", "RC QP 0x000016 QP 0x000016", "RC QP 0x000017 QP 0x000017",
		"RC QP 0x000018 QP 0x000018", "RC QP 0x000019 QP 0x000019", "RC QP 0x00001a QP 0x00001a", "MAD QP 1 QP 1",
		"UD QP 0x00001b QP 0x00001b", "RC QP 0x00001c QP 0x00001c"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("conversations:\n%s", strings.Join(got, "\n"))
	}
	if packets != s.Counts.Packets {
		t.Errorf("%d packets in conversations, %d in the capture", packets, s.Counts.Packets)
	}
}

// TestSiwRetransmissions: tshark counts eight retransmissions in this capture, too.
func TestSiwRetransmissions(t *testing.T) {
	s, err := Take(File(captures[2]))
	if err != nil {
		t.Fatal(err)
	}
	var all Tally
	for _, c := range s.Conversations {
		TCPRetransmission.each(func(i int) { all[i] += c.Tally[i] })
	}
	if len(s.Conversations) != 9 || all.String() != "8 TCP retransmissions" {
		t.Errorf("%d conversations, %s", len(s.Conversations), all.String())
	}
}

// checkDrawing draws conversations in every way, and checks the rules of all drawings: each packet is in one row, alone
// or with others, lines fit, and SVG and JSON are well-formed.
func checkDrawing(t *testing.T, s *Survey, list []*Conversation) {
	t.Helper()
	packets := 0
	for _, c := range list {
		packets += c.Packets
	}
	for _, o := range []Options{{}, {All: true}, {Limit: 5}} {
		o.Conversations = list
		l, err := s.Draw(o)
		if err != nil {
			t.Fatal(err)
		}
		n, marks := 0, Mark(0)
		for i := range l.Rows {
			r := &l.Rows[i]
			n += r.Packets
			marks |= r.Marks
			if r.Packets > 1 && (o.All || r.Marks != 0) {
				t.Errorf("row %d has %d packets and marks %v", i, r.Packets, r.Marks.Names())
			}
			if r.Until < r.At {
				t.Errorf("row %d is from %v to %v", i, r.At, r.Until)
			}
		}
		if n != l.Packets || n+l.LeftOut != packets {
			t.Errorf("%+v: %d packets in rows, %d left out, want %d", o, n, l.LeftOut, packets)
		}
		if o.Limit > 0 && len(l.Rows) > o.Limit {
			t.Errorf("%d rows, limit %d", len(l.Rows), o.Limit)
		}
		checkText(t, l)
		var svg, page bytes.Buffer
		if err := l.WriteSVG(&svg, []string{"a <title> & more"}, 0); err != nil {
			t.Fatal(err)
		}
		for d := xml.NewDecoder(&svg); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("SVG: %v", err)
			}
		}
		checkNarrow(t, l)
		if err := l.WriteHTML(&page, []string{"title"}); err != nil {
			t.Fatal(err)
		}
		if rest := strings.ReplaceAll(page.String(), "http://www.w3.org/2000/svg", ""); strings.Contains(rest, "://") ||
			strings.Contains(rest, "{{") {
			t.Error("the page has addresses of others, or a place that was not filled")
		}
		if _, err := json.Marshal(s.Report(list, l)); err != nil {
			t.Fatal(err)
		}
	}
}

// checkText checks that a drawing fits terminals of several widths.
func checkText(t *testing.T, l *Ladder) {
	t.Helper()
	if len(l.Columns) > MaxTextColumns {
		return
	}
	for _, width := range []int{MinWidth, 80, 120} {
		var b bytes.Buffer
		if err := l.WriteText(&b, Text{Width: width}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if line = strings.TrimSuffix(line, "\n"); utf8.RuneCountInString(line) > width ||
				strings.ContainsAny(line, "\x1b\r") {
				t.Errorf("width %d: %q", width, line)
			}
		}
	}
}

// checkNarrow checks that a picture of two hosts has the width that was asked for, and that no text leaves it.
func checkNarrow(t *testing.T, l *Ladder) {
	t.Helper()
	const wide = 420
	var svg bytes.Buffer
	title := "a title that is longer than a window of a phone is wide, which has to have several lines"
	if err := l.WriteSVG(&svg, []string{title, title}, wide); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(&svg); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("SVG: %v", err)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		a := map[string]string{}
		for _, attr := range e.Attr {
			a[attr.Name.Local] = attr.Value
		}
		switch {
		case e.Name.Local == "svg" && a["width"] != fmt.Sprint(wide) && len(l.Columns) <= 3:
			t.Errorf("%d columns, and a width of %s", len(l.Columns), a["width"])
		case e.Name.Local == "text" && len(l.Columns) == 2:
			text, err := d.Token()
			if err != nil {
				t.Fatal(err)
			}
			content, _ := text.(xml.CharData)
			x, err := strconv.ParseFloat(a["x"], 64)
			if err != nil {
				t.Fatal(err)
			}
			char := map[string]float64{"title": titleChar, "note": noteChar, "head": boldChar}[a["class"]]
			if char == 0 {
				char = svgChar
			}
			left, size := x, float64(utf8.RuneCount(content))*char
			switch {
			case a["text-anchor"] == "end" || a["class"] == "time":
				left -= size
			case a["text-anchor"] == "middle" || a["class"] == "head" || a["class"] == "detail":
				left -= size / 2
			}
			if left < 0 || left+size > wide {
				t.Errorf("%q goes from %.0f to %.0f", content, left, left+size)
			}
		}
	}
}

// TestDrawings draws all conversations of captures of other stacks.
func TestDrawings(t *testing.T) {
	for _, name := range captures {
		s, err := Take(File(name))
		if err != nil {
			t.Fatal(err)
		}
		for i := range s.Conversations {
			checkDrawing(t, s, s.Conversations[i:i+1])
		}
		checkDrawing(t, s, s.Conversations)
	}
}

// TestChoose: a conversation that ended with a fault comes before one that went on after more of them, and the reason
// is true.
func TestChoose(t *testing.T) {
	to := func(p ib.Packet, qp ib.QPN) ib.Packet {
		p.DestQP = qp
		return p
	}
	rnr := ib.RNRNAK(12)
	recovered := func(r *recording, naks int) { // each is answered by the missing packets
		for n := range naks {
			r.from('A', send(ib.PSN(100+2*n), 10))
			r.from('B', ack(ib.PSN(100+2*n), ib.NAK(ib.NAKPSNSequenceError)))
			r.from('A', send(ib.PSN(100+2*n), 10))
			r.from('B', ack(ib.PSN(100+2*n), positive))
		}
	}
	starved := func(r *recording) {
		for range 4 {
			r.from('A', to(send(500, 10), 0x1b))
			r.from('B', to(ack(500, rnr), 0x1a))
		}
	}
	for _, c := range []struct {
		name  string
		naks  int
		ended bool
		qp    ib.QPN
		why   string
	}{
		{"three retransmissions and an end by RNR beside one NAK", 1, true, 0x1b, "the one with the most faults"},
		{"the same beside many NAKs", 5, true, 0x1b, "one that a fault ended"},
		{"NAKs alone", 2, false, 0xb, "the one with the most faults"},
		{"nothing", 0, false, 0x1b, "the busiest"},
	} {
		r := newRecording(t)
		recovered(r, c.naks)
		starved(r)
		if !c.ended { // it goes on
			r.from('A', to(send(500, 10), 0x1b))
			r.from('B', to(ack(500, positive), 0x1a))
		}
		s := r.survey()
		if c.why == "the busiest" {
			for _, v := range s.Conversations {
				v.Tally, v.Ended = Tally{}, false
			}
		}
		if c.name == "NAKs alone" {
			for _, v := range s.Conversations {
				if v.Has(0x1b) {
					v.Tally = Tally{}
				}
			}
		}
		got, why := Choose(s.Conversations)
		if !got.Has(uint32(c.qp)) || why != c.why {
			t.Errorf("%s: %v, %v: %s, want %s", c.name, got.A, got.B, why, c.why)
		}
	}
}

// TestHistory: the meaning of packets after the packets before them (chapter 9).
func TestHistory(t *testing.T) {
	r := newRecording(t)
	const first = ib.PSNMask - 1 // PSNs wrap
	psn := func(n int) ib.PSN { return first.Add(n) }
	wants := []struct {
		marks Mark
		text  string
	}{}
	want := func(m Mark, text string) {
		wants = append(wants, struct {
			marks Mark
			text  string
		}{m, text})
	}
	r.from('A', send(psn(0), 100))
	want(0, "Send Only|PSN 16777214|100 B")
	r.from('A', send(psn(1), 100))
	want(0, "PSN 16777215")
	r.from('A', send(psn(2), 100))
	want(0, "PSN 0|")
	r.from('B', ack(psn(2), positive))
	want(0, "ACK|PSN 0|acks 16777214–0")
	r.from('A', send(psn(4), 100)) // psn(3) was lost before the capture
	want(Gap, "PSN 1 before it: not in the capture")
	r.from('B', ack(psn(3), ib.NAK(ib.NAKPSNSequenceError)))
	want(NAK, "NAK|PSN sequence error|PSN 1|syndrome 0x60")
	r.from('A', send(psn(3), 100))
	want(Retransmission, "retransmission after the NAK")
	r.from('A', send(psn(4), 100))
	want(Retransmission, "retransmission after the NAK")
	r.from('B', ack(psn(4), positive))
	want(0, "acks 1–2")
	r.from('B', ack(psn(4), positive))
	want(Repeated, "acknowledges nothing new")
	r.from('A', send(psn(5), 100))
	want(0, "")
	r.from('B', ack(psn(5), ib.RNRNAK(ib.RNRTimerFor(10*time.Millisecond))))
	want(RNR, "RNR NAK|PSN 3|no receive was posted: wait 10.2 ms")
	r.from('A', send(psn(5), 100))
	want(Retransmission, "after the RNR NAK's time")
	r.from('A', send(psn(5), 100))
	want(Retransmission, "after the RNR NAK's time")
	r.from('B', ack(psn(5), positive))
	want(0, "")
	r.from('A', send(psn(6), 100))
	want(0, "")
	r.now = r.now.Add(500 * time.Millisecond)
	r.from('A', send(psn(6), 100))
	want(Retransmission, "without an answer for 501 ms")
	r.from('B', ack(psn(6), ib.NAK(ib.NAKRemoteAccessError)))
	want(NAK, "remote access error|PSN 4|syndrome 0x62")
	r.tos = 3
	r.from('A', send(psn(7), 100))
	want(CongestionMark, "congestion experienced")
	r.from('B', ib.Packet{BTH: ib.BTH{Opcode: ib.CNP}, Payload: make([]byte, 16)})
	want(CongestionNotice, "CNP")
	r.bad = true
	r.from('A', send(psn(8), 100))
	want(BadCRC, "the ICRC is wrong")
	r.from('A', send(psn(8), 100)) // not seen before: nobody took the last one
	want(0, "")
	r.from('A', ib.Packet{BTH: ib.BTH{Opcode: ib.RCCompareSwap, PSN: psn(9)},
		AtomicETH: ib.AtomicETH{VA: 0x1000, RKey: 0x22, Swap: 7, Compare: 6}})
	want(0, "Compare Swap|PSN 7|0x7 if it is 0x6, va 0x1000, rkey 0x00000022")
	r.from('B', ib.Packet{BTH: ib.BTH{Opcode: ib.RCAtomicAck, PSN: psn(9)}, AETH: ib.AETH{Syndrome: positive},
		AtomicAck: ib.AtomicAckETH{Orig: 6}})
	want(0, "it was 0x6")
	r.from('A', ib.Packet{BTH: ib.BTH{Opcode: ib.RCFetchAdd, PSN: psn(10)},
		AtomicETH: ib.AtomicETH{VA: 0x1000, RKey: 0x22, Swap: 41}})
	want(0, "add 41")
	r.from('A', ib.Packet{BTH: ib.BTH{Opcode: 0x1f, PSN: psn(11)}})
	want(Malformed, "malformed||reserved opcode")
	r.comment = "a comment\x1b[2J"
	r.from('A', ib.Packet{BTH: ib.BTH{Opcode: ib.RCSendOnlyImm, PSN: psn(11)}, Imm: 0x1234})
	want(0, "immediate 0x00001234|comment: a comment [2J")
	s, l := r.rows()
	for i, w := range wants {
		row := &l.Rows[i]
		text := row.Op + "|" + strings.Join(row.Facts, "|") + "|" + strings.Join(row.Notes, "|")
		if row.Marks != w.marks || !strings.Contains(text, w.text) {
			t.Errorf("row %d is %v %q, want %v with %q", i+1, row.Marks.Names(), text, w.marks.Names(), w.text)
		}
	}
	if len(l.Rows) != len(wants) {
		t.Errorf("%d rows, want %d", len(l.Rows), len(wants))
	}
	c := s.Conversations[0]
	if a, b := c.A.String(), c.B.String(); a != "192.0.2.1 QP 0x00000a" || b != "192.0.2.2 QP 0x00000b" ||
		c.Service != "RC" {
		t.Errorf("%s, %s, %s", c.Service, a, b)
	}
	for i, n := range c.Tally {
		var m Mark
		for j := range l.Rows {
			if l.Rows[j].Marks&(1<<i) != 0 {
				m++
			}
		}
		if int(m) != n {
			t.Errorf("the list counts %d %s, the drawing has %d", n, markNames[i].many, m)
		}
	}
	checkDrawing(t, s, s.Conversations)
}

// TestReadPSNs: a READ takes as many PSNs as it has responses, by the path MTU that packets show.
func TestReadPSNs(t *testing.T) {
	r := newRecording(t)
	read := func(psn ib.PSN, n uint32) ib.Packet {
		return ib.Packet{BTH: ib.BTH{Opcode: ib.RCReadRequest, PSN: psn}, RETH: ib.RETH{VA: 1, RKey: 2, DMALen: n}}
	}
	response := func(op ib.Opcode, psn ib.PSN, n int) ib.Packet {
		return ib.Packet{BTH: ib.BTH{Opcode: op, PSN: psn}, AETH: ib.AETH{Syndrome: positive}, Payload: make([]byte, n)}
	}
	answer := func(psn ib.PSN) {
		r.from('B', response(ib.RCReadResponseFirst, psn, 1024))
		r.from('B', response(ib.RCReadResponseMiddle, psn+1, 1024))
		r.from('B', response(ib.RCReadResponseLast, psn+2, 52))
	}
	r.from('A', read(10, 2100))
	answer(10)
	r.from('A', read(13, 2100))
	r.from('A', send(16, 8))
	answer(13)
	r.from('B', ack(16, positive))
	r.from('A', read(17, 2100))
	r.from('B', response(ib.RCReadResponseFirst, 17, 1024))
	r.from('B', response(ib.RCReadResponseLast, 19, 52)) // 18 was lost
	r.from('A', read(18, 1076))                          // the rest of it, again
	r.from('B', response(ib.RCReadResponseFirst, 18, 1024))
	r.from('B', response(ib.RCReadResponseLast, 19, 52))
	r.from('A', send(20, 8))
	s, l := r.rows()
	var all Tally
	for i := range l.Rows {
		all.add(l.Rows[i].Marks)
	}
	if got := all.String(); got != "1 retransmission, 1 gap in the PSNs, 2 repeated responses" {
		t.Errorf("marks: %s", got)
	}
	if row := l.Rows[4]; row.FirstPSN != 13 || row.LastPSN != 15 {
		t.Errorf("the second READ has PSNs %d to %d, want 13 to 15", row.FirstPSN, row.LastPSN)
	}
	checkDrawing(t, s, s.Conversations)
}

// TestBothEnds: packets that were recorded at both ends are one arrow each, and packets that did not arrive were lost.
// A retransmission may have the same bytes.
func TestBothEnds(t *testing.T) {
	r := newRecording(t)
	both := func(p ib.Packet) {
		r.direction = trace.Outbound
		r.from('A', p)
		r.direction, r.again = trace.Inbound, true
		r.from('A', p)
	}
	both(send(1, 10))
	r.direction = trace.Inbound // recorded as it arrived before it was as it left
	r.from('A', send(2, 10))
	r.direction, r.again = trace.Outbound, true
	r.from('A', send(2, 10))
	r.direction = trace.Outbound
	r.from('A', send(3, 10)) // lost
	r.again = true
	r.from('A', send(3, 10)) // the same bytes again
	r.direction, r.again = trace.Inbound, true
	r.from('A', send(3, 10))
	both(send(4, 10))
	_, l := r.rows()
	var got []string
	for i := range l.Rows {
		got = append(got, fmt.Sprintf("%d %v %v", l.Rows[i].FirstPSN, l.Rows[i].Marks.Names(), l.Rows[i].Arrived > 0))
	}
	// Which of the two with the same bytes has arrived nobody can tell: the first is taken for it.
	want := []string{"1 [] true", "2 [] true", "3 [] true", "3 [retransmission lost] false", "4 [] true"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("rows:\n%s", strings.Join(got, "\n"))
	}
}

// TestFolding: runs and repetitions take one row each, acknowledgements between them do not disturb, and packets with a
// mark stand out.
func TestFolding(t *testing.T) {
	r := newRecording(t)
	psn := ib.PSN(0)
	message := func(middles int) {
		op := ib.RCWriteFirst
		for i := range middles + 2 {
			if i > 0 {
				op = ib.RCWriteMiddle
			}
			if i == middles+1 {
				op = ib.RCWriteLast
			}
			r.from('A', ib.Packet{BTH: ib.BTH{Opcode: op, PSN: psn}, Payload: make([]byte, 256)})
			if i%5 == 4 {
				r.from('B', ack(psn, positive))
			}
			psn++
		}
	}
	message(1000)
	for range 10 {
		message(8)
	}
	r.from('A', send(psn-1, 10)) // a retransmission
	for range 10 {
		message(8)
	}
	s := r.survey()
	l, err := s.Draw(Options{Conversations: s.Conversations})
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Rows) > 24 {
		t.Errorf("%d rows", len(l.Rows))
	}
	if m := l.Rows[1]; m.Op != "Write Middle" || m.Facts[0] != "×1,000" || m.Bytes != 256_000 || m.Acks != 200 ||
		m.FirstPSN != 1 || m.LastPSN != 1000 {
		t.Errorf("the run is %+v", m)
	}
	marked, repeats := 0, 0
	for i := range l.Rows {
		if l.Rows[i].Marks != 0 {
			marked++
		}
		repeats += l.Rows[i].Repeats
	}
	if marked != 1 || repeats != 9+9 {
		t.Errorf("%d rows with marks, %d repetitions, want 1 and 18", marked, repeats)
	}
	checkDrawing(t, s, s.Conversations)
}

// TestPairs: flows that no connection manager introduced are paired by acknowledgements, however many there are.
func TestPairs(t *testing.T) {
	r := newRecording(t)
	const pairs = 50
	for round := range 4 {
		for i := range pairs {
			p := send(ib.PSN(i*1000+round), 10)
			p.DestQP = ib.QPN(0x1000 + i)
			r.from('A', p)
		}
		for i := range pairs {
			p := ack(ib.PSN(i*1000+round), positive)
			p.DestQP = ib.QPN(0x2000 + i)
			r.from('B', p)
		}
	}
	s := r.survey()
	if len(s.Conversations) != pairs {
		t.Fatalf("%d conversations, want %d", len(s.Conversations), pairs)
	}
	for _, c := range s.Conversations {
		if c.A.QP-0x2000 != c.B.QP-0x1000 || !c.A.Known {
			t.Errorf("%v and %v are paired", c.A, c.B)
		}
	}
}

// TestFabricNodes: a packet that was recorded at each cable of a fabric is one arrow past the switches, which have
// columns between the hosts' columns.
func TestFabricNodes(t *testing.T) {
	var file bytes.Buffer
	w, err := trace.NewWriter(&file, "fabric")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	lid := map[string]uint16{"host-1": 3, "host-2": 5}
	pass := func(p ib.Packet, nodes ...string) {
		from, to := lid[nodes[0]], uint16(8)-lid[nodes[0]]
		t := p.Append(nil)
		lrh := ib.LRH{LNH: ib.LNHLocal, SLID: from, DLID: to, PktLen: uint16((ib.LRHLen + len(t) + ib.ICRCLen) / 4)}
		for i, n := range nodes {
			lrh.VL = uint8(i) // switches change it
			b := append(lrh.Append(nil), t...)
			sum, _ := ib.LocalICRC(b)
			b = ib.AppendVCRC(binary.LittleEndian.AppendUint32(b, sum))
			at = at.Add(time.Microsecond)
			w.WriteInfiniBand(&trace.InfiniBand{At: at, Comment: "from " + n + "[1]"}, b)
		}
	}
	request, response := send(7, 8), ack(7, positive)
	request.DestQP, response.DestQP = 0xb, 0xa
	pass(request, "host-1", "leaf-1", "spine", "leaf-2")
	pass(response, "host-2", "leaf-2", "leaf-1")
	pass(request, "host-1", "leaf-1", "spine", "leaf-2") // the same bytes: a retransmission
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := recording{t: t, w: w, file: file}
	s, l := r.rows()
	var columns []string
	for _, c := range l.Columns {
		columns = append(columns, fmt.Sprint(c.Name, " ", c.Details, c.Switch))
	}
	if got := strings.Join(columns, ", "); got != "host-1 [LID 3 QP 0x00000a] false, leaf-1 [] true, spine [] true, leaf-2 [] true, host-2 [LID 5 QP 0x00000b] false" {
		t.Errorf("columns: %s", got)
	}
	var rows []string
	for i := range l.Rows {
		r := &l.Rows[i]
		rows = append(rows, fmt.Sprint(r.From, r.Via, r.To, r.Marks.Names()))
	}
	if got := strings.Join(rows, ", "); got != "0 [1 2 3] 4 [], 4 [3 1] 0 [], 0 [1 2 3] 4 [retransmission]" {
		t.Errorf("rows: %s", got)
	}
	checkDrawing(t, s, s.Conversations)
}

// TestNoICRC: where no packet has a right ICRC, that is no fault of each.
func TestNoICRC(t *testing.T) {
	for _, right := range []int{0, 1} {
		r := newRecording(t)
		for i := range 10 {
			r.bad = i >= right
			r.from('A', send(ib.PSN(i), 10))
		}
		s := r.survey()
		if n := s.Conversations[0].Tally.Total(); s.NoCRCs != (right == 0) || n != 9*right {
			t.Errorf("%d right: %v, %d marks", right, s.NoCRCs, n)
		}
	}
}

// TestWindow: only packets between two times are drawn, and the packets before are known nevertheless.
func TestWindow(t *testing.T) {
	r := newRecording(t)
	for i := range 100 {
		r.from('A', send(ib.PSN(i), 10))
	}
	r.from('A', send(50, 10))
	s := r.survey()
	l, err := s.Draw(Options{Conversations: s.Conversations, From: 90 * time.Millisecond, To: 95 * time.Millisecond,
		All: true})
	if err != nil || len(l.Rows) != 6 || l.Rows[0].FirstPSN != 90 {
		t.Errorf("%d rows, %v", len(l.Rows), err)
	}
	l, err = s.Draw(Options{Conversations: s.Conversations, From: 100 * time.Millisecond, All: true})
	if err != nil || len(l.Rows) != 1 || l.Rows[0].Marks != Retransmission {
		t.Errorf("%+v, %v", l.Rows, err)
	}
}

// FuzzLadder: whatever is in a capture, it is drawn, and each packet is in one row.
func FuzzLadder(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	for _, name := range captures {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:min(len(b), 5000)])
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		if len(file) > 2 && file[0] == 0x1f && file[1] == 0x8b {
			t.Skip("what is compressed may be large")
		}
		s, err := Take(func(to func(*capture.Packet)) (capture.Counts, error) {
			return capture.ReadFrom(bytes.NewReader(file), to)
		})
		if err != nil || len(s.Conversations) == 0 {
			return
		}
		packets := s.Unfollowed
		for _, c := range s.Conversations {
			packets += c.Packets
		}
		if packets > s.Counts.Packets {
			t.Errorf("%d packets in conversations, %d in the capture", packets, s.Counts.Packets)
		}
		c, _ := Choose(s.Conversations)
		checkDrawing(t, s, []*Conversation{c})
		checkDrawing(t, s, s.Conversations)
	})
}
