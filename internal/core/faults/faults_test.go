// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestText parses faults and writes them again.
func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"loss 1%": "",
		"loss 1% received peer 192.0.2.7 after 2s":             "",
		"loss sent of REP times 1":                             "",
		"loss sent of rep times 1":                             "loss sent of REP times 1",
		"duplicate 0.5% sent":                                  "",
		"reorder 1%":                                           "reorder 1ms 1%",
		"corrupt nth 3,5-7,9-":                                 "",
		"delay 10ms 2ms peer 192.0.2.0/24":                     "",
		"rate 100mbit sent":                                    "",
		"rate 1.5gbit":                                         "rate 1500mbit",
		"partition peer fd09::1 after 2s for 3s":               "partition peer fd09::1 after 2s until 5s",
		"partition lid 0x5":                                    "partition lid 5",
		"partition nth 5- sent peer 192.0.2.7 qp 2nd":          "",
		"rate 10mbit nth 3- qp 0x11 until 5s":                  "",
		"down for 1s after 2s":                                 "down after 2s until 3s",
		"down after 2s until 3s":                               "",
		"rnr nth 2 qp 1st":                                     "",
		"fail ibv_reg_mr ENOMEM nth 3":                         "fail reg_mr ENOMEM nth 3",
		"fail post_send enomem 2% qp 0x11":                     "fail post_send ENOMEM 2% qp 0x11",
		"complete write IBV_WC_REM_ACCESS_ERR every 5 qp 12th": "complete write REM_ACCESS_ERR every 5 qp 12th",
		"complete any retry_exc_err nth 1":                     "complete any RETRY_EXC_ERR nth 1",
		"late 5ms every 2":                                     "",
		"event PORT_ERR after 1s":                              "",
		"event IBV_EVENT_QP_FATAL qp 2nd nth 100":              "event QP_FATAL nth 100 qp 2nd",
		"loss 1% device roce:127.0.0.1":                        "",
		"reject":                                               "reject 28",
		"reject 8 received nth 1":                              "reject 8 nth 1 received",
		"disconnect nth 100 qp 1st":                            "",
		"disconnect after 2s":                                  "",
		"fail rdma_resolve_route EIO":                          "fail resolve_route EIO",
		Prefix + "loss 1%  # a comment":                        "loss 1%",
	} {
		s, err := Parse(text)
		if err != nil || len(s.Faults) != 1 {
			t.Errorf("%q: %d faults, %v", text, len(s.Faults), err)
			continue
		}
		if want == "" {
			want = text
		}
		got := s.Faults[0].String()
		if got != want {
			t.Errorf("%q is written as %q, want %q", text, got, want)
		}
		if again, err := Parse(got); err != nil || again.Faults[0].String() != got {
			t.Errorf("%q does not parse back: %v", got, err)
		}
	}
	s, err := Parse("# a comment\n\nseed 42; loss 1% # more\r\n  corrupt nth 3\ncorrupt nth 1\n")
	if err != nil || s.Seed != 42 || !s.Seeded || len(s.Faults) != 2 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestErrors: an error names the place, and the expected word.
func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"los 1%":                          `line 1, column 1: "los": expected a fault: seed, loss, .*; did you mean loss\?`,
		"loss 1%\n  fail reg_mrr EIO":     `line 2, column 8: "reg_mrr": expected a call: .*; did you mean reg_mr\?`,
		"fail reg_mr":                     `line 1, column 12: the end of the line: expected an errno: ENOMEM, .*`,
		"loss 1% ; loss 101%":             `line 1, column 16: "101%": expected a chance of more than 0% and at most 100%`,
		"loss from 192.0.2.7":             `line 1, column 6: "from": expected a chance such as 1%, sent, .*; did you mean peer\?`,
		"loss of WRITES":                  `.*expected a sort of packet: .*; did you mean write\?`,
		"loss tick":                       `.*or the end of the line`,
		"loss 1":                          `.*"1": expected a chance such as 1%, .*; did you mean 1%\?`,
		"loss 1%, delay 5ms":              `.*"1%,": expected .*; faults have semicolons between them, and words have blanks`,
		"delay 5ms, loss 1%":              `.*"5ms,": expected .*; faults have semicolons between them, and words have blanks`,
		"loss=1%":                         `.*expected a fault: .*; did you mean loss 1%\?`,
		"loss peer=192.0.2.7":             `.*; did you mean peer 192.0.2.7\?`,
		"drop 1%":                         `.*expected a fault: .*; did you mean loss\?`,
		"complete RDMA_WRITE FATAL_ERR":   `.*expected an operation: .*; did you mean write\?`,
		"loss peer nobody":                `line 1, column 11: "nobody": expected the address of a peer, .*`,
		"loss nth 0":                      `.*"0": expected numbers from 1 on.*`,
		"loss nth 7-3":                    `.*expected numbers from 1 on.*`,
		"loss sent received":              `.*"received": expected sent or received only once in a fault`,
		"delay":                           `.*the end of the line: expected how much later, such as 10ms or 1.5s`,
		"delay 10":                        `.*"10": expected how much later.*`,
		"rate 10mbps":                     `.*expected a rate, such as 100mbit.*`,
		"rate 1mbit 5%":                   `.*expected no chance.*`,
		"partition":                       `.*the end of the line: expected peer ADDRESS or lid NUMBER.*`,
		"down nth 3":                      `.*"nth": expected another word: it begins and ends at a time: after, until or for`,
		"partition peer ::1 nth 3":        `line 1, column 24: "3": expected from which number on, such as 3-: partition lasts`,
		"rate 1mbit nth 3-5":              `.*"3-5": expected from which number on, such as 3-: rate lasts`,
		"partition peer ::1 every 3":      `.*it begins at a time or at a number, and ends at a time: after, nth 3-, until or for`,
		"down sent":                       `.*a port is down in both directions`,
		"reject user":                     `.*"user": expected the number of a reason, such as 28, a chance.*`,
		"down after 3s until 2s":          `line 1, column 21: "2s": expected a time later than 3s, when the fault begins`,
		"fail reg_mr ENOMEM sent":         `.*only packets and requests are sent`,
		"fail reg_mr EIO qp 0x11":         `.*"qp": expected another word: only modify_qp, post_send and post_recv are of a queue pair`,
		"complete write SUCCESS":          `.*expected a status: LOC_LEN_ERR.*`,
		"event PORT_ERROR":                `.*expected an event: .*; did you mean PORT_ERR\?`,
		"loss qp 1th":                     `.*"1th": expected the number of a queue pair.*`,
		"seed x":                          `.*expected a number, the seed.*`,
		"loss " + strings.Repeat("ä", 60): `.*"ä{20}…": expected.*`,
	} {
		_, err := Parse(text)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if !match(want, err.Error()) {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
}

// packet makes a packet that is sent.
func packet(qp uint64) *Packet {
	return &Packet{Way: Sent, Peer: netip.MustParseAddr("192.0.2.7"), QP: QP{uint32(100 + qp), qp}, Message: "send",
		Size: 100, Name: "RC SEND Only"}
}

func mustParse(t *testing.T, text string) *Set {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestReplay: the log of faults by chance, as the faults of another run, strikes the same packets.
func TestReplay(t *testing.T) {
	play := func(text string) (struck []int, log string) {
		var b bytes.Buffer
		in := NewInjector(mustParse(t, text), "roce:192.0.2.1", NewLog(&b))
		in.Begin()
		for i := range 2000 {
			if v := in.Packet(packet(uint64(i%3+1)), time.Duration(i)*time.Millisecond); v.Drop || v.Corrupt {
				struck = append(struck, i)
			}
		}
		in.Finish()
		return struck, b.String()
	}
	first, log := play("seed 7\nloss 3% sent qp 0x65 after 100ms until 1.5s\ncorrupt every 100")
	if len(first) < 10 {
		t.Fatalf("struck %v", first)
	}
	again, second := play(log)
	if !slices.Equal(first, again) {
		t.Errorf("struck %v\nthen   %v\nlog %s", first, again, log)
	}
	third, _ := play(second)
	if !slices.Equal(first, third) {
		t.Errorf("struck %v\nthen   %v", first, third)
	}
	other, _ := play("seed 8\nloss 3% sent qp 0x65 after 100ms until 1.5s\ncorrupt every 100")
	if slices.Equal(first, other) {
		t.Error("another seed strikes the same packets")
	}
}

// TestWhen: numbers, times and limits.
func TestWhen(t *testing.T) {
	for text, want := range map[string][]int{
		"loss nth 2,4-5":         {2, 4, 5},
		"loss nth 8-":            {8, 9, 10},
		"loss every 4":           {4, 8},
		"loss times 2":           {1, 2},
		"loss every 3 times 1":   {3},
		"loss after 9ms":         {10},
		"loss until 2ms":         {1, 2},
		"loss received":          nil,
		"loss peer 192.0.2.8":    nil,
		"loss of ack":            nil,
		"loss nth 1 qp 2nd":      {2},
		"loss nth 3; loss nth 1": {1, 3},
		"loss device iwarp":      nil,
		"loss device roce nth 1": {1},
	} {
		in := NewInjector(mustParse(t, text), "roce:192.0.2.1", nil)
		var got []int
		for i := range 10 {
			if in.Packet(packet(uint64(i%2+1)), time.Duration(i)*time.Millisecond).Drop {
				got = append(got, i+1)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: struck %v, want %v", text, got, want)
		}
	}
}

// TestSlow: a rate and a delay.
func TestSlow(t *testing.T) {
	in := NewInjector(mustParse(t, "rate 1mbit; delay 5ms"), "roce:192.0.2.1", nil)
	each := time.Duration((100 + overhead) * 8 * 1000)
	for i := range 3 {
		if v := in.Packet(packet(1), 0); v.Delay != 5*time.Millisecond+time.Duration(i+1)*each {
			t.Errorf("packet %d comes %v later", i, v.Delay)
		}
	}
}

// TestCalls: errors are libibverbs's, and package verbs's.
func TestCalls(t *testing.T) {
	in := NewInjector(mustParse(t, "fail reg_mr ENOMEM nth 2; fail post_send ENOMEM; fail create_qp EIO"),
		"roce:192.0.2.1", nil)
	if err := in.Call("reg_mr", QP{}, 0); err != nil {
		t.Error(err)
	}
	for call, is := range map[string]error{
		"reg_mr": verbs.ErrNoMemory, "post_send": verbs.ErrQueueFull, "create_qp": syscall.EIO,
	} {
		err := in.Call(call, QP{}, 0)
		var op *verbs.OpError
		if !errors.Is(err, is) || !errors.As(err, &op) ||
			op.Errno() != map[string]syscall.Errno{"create_qp": syscall.EIO}[call] && op.Errno() != syscall.ENOMEM {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// TestSummary: the summary has the faults that struck, and the faults that did not.
func TestSummary(t *testing.T) {
	var b bytes.Buffer
	in := NewInjector(mustParse(t, "loss nth 2; fail reg_mr EIO nth 9; event PORT_ERR after 1h; duplicate nth 7"),
		"roce:192.0.2.1", NewLog(&b))
	in.Begin()
	for range 3 {
		in.Packet(packet(1), time.Second)
	}
	in.Finish()
	in.Finish()
	want := `loss nth 2 device roce:192.0.2.1  # 1 at 1s: RC SEND Only, 100 bytes, qp 0x65 (1st), to 192.0.2.7
# faults of roce:192.0.2.1:
#   loss nth 2: struck 1 of 3 packets
#   fail reg_mr EIO nth 9: never struck: there were no reg_mr calls that it selects
#   event PORT_ERR after 1h0m0s: never struck: its time has not come
#   duplicate nth 7: never struck: none of 3 packets
`
	if b.String() != want {
		t.Errorf("the log is\n%swant\n%s", &b, want)
	}
	device, qp := Count{0, "loss", 1}, Count{101, "loss", 1}
	if c := in.Counts(); !slices.Equal(c, []Count{device, qp}) {
		t.Errorf("counts %v", c)
	}
	next := NewInjector(&Set{}, "roce:192.0.2.1", nil)
	next.Carry(in)
	in.Forget(101)
	if c := in.Counts(); !slices.Equal(c, []Count{device}) {
		t.Errorf("without the queue pair the counts are %v", c)
	}
	if c := next.Counts(); !slices.Equal(c, []Count{device, qp}) {
		t.Errorf("the faults that follow count %v", c)
	}
}

// TestEnded: what has struck is told by the faults that follow, and by those that follow them.
func TestEnded(t *testing.T) {
	var b bytes.Buffer
	log := NewLog(&b)
	const name = "roce:192.0.2.1"
	var last *Injector
	for _, text := range []string{"loss nth 2; corrupt nth 9", "duplicate nth 1; event PORT_ERR", "loss nth 2", ""} {
		in := NewInjector(mustParse(t, text), name, log)
		if last != nil {
			last.End()
		}
		b.Reset() // which has what that logged
		in.Carry(last)
		in.Begin()
		for range 3 {
			in.Packet(packet(1), 0)
		}
		for _, m := range in.Moments() {
			in.Came(m, 0, true)
		}
		last = in
	}
	last.Finish()
	if want := "# faults of " + name + `:
#   loss nth 2: struck 2 of 6 packets, and has ended
#   duplicate nth 1: struck 1 of 3 packets, and has ended
#   event PORT_ERR: struck, and has ended
`; b.String() != want {
		t.Errorf("the log is\n%swant\n%s", &b, want)
	}
	for n := range 2 * maxPast {
		in := NewInjector(mustParse(t, fmt.Sprintf("loss peer 192.0.2.7 nth 1-%d", n+1)), name, nil)
		in.Packet(packet(1), 0)
		next := NewInjector(&Set{}, name, nil)
		next.Carry(last)
		next.Carry(in)
		last = next
	}
	if r := last.Results(); len(r) != maxPast || !strings.Contains(r[maxPast-1].Fault, fmt.Sprint(2*maxPast)) {
		t.Errorf("%d faults are remembered: %v", len(r), r[len(r)-1])
	}
}

// TestOne: of several faults that would decide a verdict the first one does. The others count, and do not strike.
func TestOne(t *testing.T) {
	in := NewInjector(mustParse(t, "fail reg_mr ENOMEM; fail reg_mr EIO times 1"), "roce:192.0.2.1", nil)
	for range 3 {
		if err := in.Call("reg_mr", QP{}, 0); !errors.Is(err, verbs.ErrNoMemory) {
			t.Error(err)
		}
	}
	if r := in.Results(); r[0].Struck != 3 || r[1].Struck != 0 || r[1].Selected != 3 {
		t.Errorf("%+v", r)
	}
}

// TestComments: the comment of a packet names the fault that struck it, and any other comment is none.
func TestComments(t *testing.T) {
	in := NewInjector(mustParse(t, "delay 5ms; duplicate; corrupt nth 2; loss nth 3"), "roce:192.0.2.1", nil)
	for _, want := range []string{
		"injected: duplicate, delay", "injected: duplicate, corrupt, delay", "injected: loss, duplicate, delay",
	} {
		v := in.Packet(packet(1), 0)
		if got := v.By.Comment(); got != want || OfComment(got) != v.By || v.By.Lost() != v.Drop {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, c := range []string{
		"", "injected: ", "injected: los", "injected: loss,", "loss", "from leaf-1[3]", Kinds(0).Comment(),
	} {
		if k := OfComment(c); k != 0 {
			t.Errorf("%q is %v", c, k.Comment())
		}
	}
}

// FuzzParse: any text is faults or an error with a place, and parsed faults are written so that they parse to the same.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "l", "loss 1%", "delay 1ms 2ms sent; seed 4", "fail reg_mr ENOMEM nth 1-3,7-", "down after 1s for 2s # x",
		"event QP_FATAL qp 3rd",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		var e *Error
		if err != nil {
			if !errors.As(err, &e) || e.Line < 1 || e.Column < 1 || e.Expected == "" {
				t.Fatalf("%q: %#v", text, err)
			}
			return
		}
		for _, fault := range s.Faults {
			again, err := Parse(fault.String())
			if err != nil || len(again.Faults) != 1 || again.Faults[0].String() != fault.String() {
				t.Fatalf("%q is written as %q, which is %v, %v", text, &fault, again, err)
			}
		}
		in := NewInjector(s, "roce:192.0.2.1", nil)
		in.Packet(packet(1), 0)
		_ = fmt.Sprint(in.Call("reg_mr", QP{}, 0), in.Summary(), in.Moments())
	})
}

func match(pattern, s string) bool { return regexp.MustCompile("^(?:" + pattern + ")$").MatchString(s) }
