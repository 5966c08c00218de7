// SPDX-License-Identifier: Apache-2.0

package fabricconsole

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/fabricview"
)

// fake is a fabric of two switches with two cables between them and an adapter at each. Links that are
// plugged become active after 200 ms of its time, and packets pass every 10 ms if there is a way.
type fake struct {
	view  fabricview.View
	now   time.Duration
	since map[fabricview.End]time.Duration // when ports were plugged
	calls []string
	fail  error
}

func newFake() *fake {
	f := &fake{since: make(map[fabricview.End]time.Duration)}
	for i, name := range []string{"switch-1", "switch-2", "host-1", "rack#host 2"} {
		n := fabricview.Node{Name: name, Type: fabricview.Switch, GUID: fabricview.GUID(0x10 * (i + 1)),
			LID: uint16(i + 1)}
		ports := 4
		if i >= 2 {
			n.Type, n.LID, ports = fabricview.Adapter, 0, 1
		}
		for p := range ports {
			port := fabricview.Port{Number: p + 1, State: fabricview.Down}
			if i >= 2 {
				port.LID, port.GUID = uint16(i+1), n.GUID+1
			}
			n.Ports = append(n.Ports, port)
		}
		f.view.Nodes = append(f.view.Nodes, n)
	}
	for _, l := range [][2]fabricview.End{{{Node: "switch-1", Port: 3}, {Node: "switch-2", Port: 3}},
		{{Node: "switch-1", Port: 4}, {Node: "switch-2", Port: 4}},
		{{Node: "host-1", Port: 1}, {Node: "switch-1", Port: 1}},
		{{Node: "rack#host 2", Port: 1}, {Node: "switch-2", Port: 1}}} {
		f.plug(l[0], l[1])
	}
	f.advance(time.Second)
	return f
}

func (f *fake) plug(a, b fabricview.End) {
	f.view.Links = append(f.view.Links, fabricview.Link{A: a, B: b})
	f.since[a], f.since[b] = f.now, f.now
}

func (f *fake) port(e fabricview.End) *fabricview.Port {
	for i := range f.view.Nodes {
		if f.view.Nodes[i].Name == e.Node {
			return &f.view.Nodes[i].Ports[e.Port-1]
		}
	}
	return nil
}

// advance lets time pass, and states and counters follow.
func (f *fake) advance(d time.Duration) {
	f.now += d
	for i := range f.view.Nodes {
		n := &f.view.Nodes[i]
		for j := range n.Ports {
			e := fabricview.End{Node: n.Name, Port: j + 1}
			n.Ports[j].State = fabricview.Down
			if at, ok := f.since[e]; ok && !n.Off {
				if n.Ports[j].State = fabricview.Initialize; f.now-at >= 200*time.Millisecond {
					n.Ports[j].State = fabricview.Active
				}
			}
		}
	}
	up := func(n string, p int) bool { return f.port(fabricview.End{Node: n, Port: p}).State == fabricview.Active }
	if h := f.port(fabricview.End{Node: "host-1", Port: 1}); up("host-1", 1) && len(h.Held) == 0 &&
		(up("switch-1", 3) || up("switch-1", 4)) {
		h.Counters.LanePackets += uint64(d / (10 * time.Millisecond))
	}
}

func (f *fake) called(format string, a ...any) error {
	f.calls = append(f.calls, fmt.Sprintf(format, a...))
	return f.fail
}

func (f *fake) View(context.Context) (*fabricview.View, error) {
	v := f.view
	v.Nodes, v.Links = slices.Clone(v.Nodes), slices.Clone(v.Links)
	return &v, nil
}

func (f *fake) Route(_ context.Context, from, to fabricview.End) (*fabricview.Route, error) {
	r := &fabricview.Route{From: from, To: to, FromLID: f.port(from).LID, ToLID: f.port(to).LID}
	for _, p := range []int{3, 4} {
		if f.port(fabricview.End{Node: "switch-1", Port: p}).State == fabricview.Active {
			r.Hops = []fabricview.Hop{{From: from, To: fabricview.End{Node: "switch-1", Port: 1}},
				{From: fabricview.End{Node: "switch-1", Port: p}, To: fabricview.End{Node: "switch-2", Port: p}},
				{From: fabricview.End{Node: "switch-2", Port: 1}, To: to}}
			return r, nil
		}
	}
	r.Broken = "the switches are apart"
	return r, nil
}

func (f *fake) Link(_ context.Context, a, b fabricview.End) error {
	f.plug(a, b)
	f.advance(0)
	return f.called("link %v %v", a, b)
}

func (f *fake) Relink(_ context.Context, e fabricview.End) error {
	f.port(e).Pulled = false
	return f.called("relink %v", e)
}

func (f *fake) Unlink(_ context.Context, e fabricview.End) error {
	for i, l := range f.view.Links {
		if l.A == e || l.B == e {
			delete(f.since, l.A)
			delete(f.since, l.B)
			f.view.Links = slices.Delete(f.view.Links, i, i+1)
			break
		}
	}
	f.advance(0)
	return f.called("unlink %v", e)
}

func (f *fake) SetSwitch(_ context.Context, name string, up bool) error {
	for i := range f.view.Nodes {
		if f.view.Nodes[i].Name == name {
			f.view.Nodes[i].Off = !up
		}
	}
	f.advance(0)
	return f.called("switch %s %v", name, up)
}

func (f *fake) SetErrorRate(_ context.Context, e fabricview.End, rate float64) error {
	return f.called("error %v %g", e, rate)
}

func (f *fake) Hold(_ context.Context, e fabricview.End, vl int, on bool) error {
	if f.port(e).Held = nil; on {
		f.port(e).Held = []int{vl}
	}
	return f.called("hold %v %d %v", e, vl, on)
}

func (f *fake) SetGUID(_ context.Context, e fabricview.End, guid fabricview.GUID) error {
	return f.called("guid %v %v", e, guid)
}

func (f *fake) ClearCounters(_ context.Context, e fabricview.End) error {
	return f.called("clear %v", e)
}

func (f *fake) Sleep(ctx context.Context, d time.Duration) error {
	f.advance(d)
	return ctx.Err()
}

// script runs a script on a new fabric, and returns the fabric with its calls, and the output.
func script(t *testing.T, text string) (f *fake, out string, err error) {
	t.Helper()
	f = newFake()
	var b bytes.Buffer
	err = New(f, &b).Script(t.Context(), "test", text)
	return f, b.String(), err
}

func TestCommands(t *testing.T) {
	f, out, err := script(t, `
# all of them
print "hello"
unlink "switch-1"[3]	# pulled
link switch-2[3] "switch-1" [2]
UNL switch-1[2]
link switch-1[3] switch-2[3]
sw switch-2 down
switch 2 up
error "rack#host 2"[1] 0.25
error rack#host[1] 1% # not a name: see below
`)
	if err == nil || err.Error() != `test:11: there is no node "rack#host": do you mean "rack#host 2"? dump and ramjet fabric show list all` {
		t.Errorf("error: %v", err)
	}
	want := []string{"unlink switch-1[3]", "link switch-2[3] switch-1[2]", "unlink switch-1[2]",
		"link switch-1[3] switch-2[3]", "switch switch-2 false", "switch switch-2 true", "error rack#host 2[1] 0.25"}
	if !slices.Equal(f.calls, want) || out != "hello\n" {
		t.Errorf("calls %q, output %q", f.calls, out)
	}

	f, out, err = script(t, "hold host-1[1] 3 on\nhold host-1[1] 3 off\nguid switch-1 0x77\nguid host-1[1] 0x78\nguid 3\nclear\nclear host-1\nclear switch-1[2]\nerror host-1[1] 1%\nquit\nclear\n")
	want = []string{"hold host-1[1] 3 true", "hold host-1[1] 3 false", "guid switch-1[0] 0x0000000000000077",
		"guid host-1[1] 0x0000000000000078", "clear [0]", "clear host-1[0]", "clear switch-1[2]",
		"error host-1[1] 0.01"}
	if err != nil || !slices.Equal(f.calls, want) ||
		out != "0x0000000000000030  host-1\n0x0000000000000031    host-1[1]\n" {
		t.Errorf("%v, calls %q, output %q", err, f.calls, out)
	}
}

func TestRelink(t *testing.T) {
	f, _, err := script(t, "unlink switch-1\nexpect no route host-1 \"rack#host 2\"\nrelink switch-1[3]\nrelink switch-1\nwait active\nexpect route host-1 \"rack#host 2\"\n")
	want := []string{"unlink switch-1[1]", "unlink switch-1[3]", "unlink switch-1[4]", "link switch-1[3] switch-2[3]",
		"link switch-1[1] host-1[1]", "link switch-1[4] switch-2[4]"}
	if err != nil || !slices.Equal(f.calls, want) {
		t.Errorf("%v, calls %q", err, f.calls)
	}
	// A cable of which one end has another cable now is forgotten.
	_, _, err = script(t, "unlink switch-1[3]\nlink switch-1[3] switch-1[2]\nunlink switch-1[3]\nrelink switch-2[3]\n")
	if err == nil ||
		err.Error() != `test:4: no cable of "switch-2"[3] was pulled here: use link, and say where it goes` {
		t.Error(err)
	}
}

func TestOutput(t *testing.T) {
	dir := t.TempDir()
	sub := filepath.Join(dir, "sub")
	if err := os.WriteFile(sub, []byte("print from the file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	picture := filepath.Join(dir, "picture.svg")
	_, out, err := script(t, fmt.Sprintf(
		"dump\ndump host-1\nroute 3 4\ncounters host-1\nguid\nhelp\nsvg %q host-1 4\nrun %q\n!%s\n", picture, sub, sub))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 switches, 2 adapters, 4 links (4 Active)",
		"route from host-1 (LID 3) to rack#host 2 (LID 4): 3 hops", "unlink NODE[PORT]",
		"0x0000000000000041    rack#host 2[1]", "from the file\nfrom the file\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if svg, err := os.ReadFile(picture); err != nil || !bytes.Contains(svg, []byte("route: host-1 (LID 3)")) {
		t.Errorf("picture: %v, %d bytes", err, len(svg))
	}
	for _, line := range strings.Split(out, "\n") {
		if len([]rune(line)) > 80 {
			t.Errorf("more than 80 columns: %s", line)
		}
	}
	loop := filepath.Join(dir, "loop")
	if err := os.WriteFile(loop, []byte("run "+loop), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := script(t, "run "+loop); err == nil || !strings.Contains(err.Error(), "8 scripts run each other") {
		t.Error(err)
	}
}

func TestExpect(t *testing.T) {
	for _, text := range []string{
		"expect link switch-1[3] up", "expect link switch-1[2] down", "expect link switch-1[3] active",
		"expect no link switch-1[3] armed", "expect switch 1 up", "expect active",
		"expect route host-1 \"rack#host 2\"", "expect traffic host-1[1]", "expect not traffic switch-1[2] within 1s",
		"unlink switch-1[3]\nrelink switch-1[3]\nexpect link switch-1[3] initialize\nexpect link switch-1[3] up within 1s", "switch switch-2 down\nexpect switch switch-2 down\nexpect active",
		"hold host-1[1] 0 on\nexpect no traffic host-1[1] within 500ms\nhold host-1[1] 0 off\nexpect traffic host-1[1] within 2s",
		"wait 0\nwait 1\nwait 20ms\nwait active within 1s",
	} {
		if _, _, err := script(t, text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"expect link switch-1[3] down":                                     `test:1: not so: link "switch-1"[3] down: it is Active`,
		"print x\nexpect link switch-1[2] up within 1s":                    `test:2: not so within 1s: link "switch-1"[2] up: it is Down`,
		"expect no active":                                                 `test:1: not so: no active: it is so`,
		"expect switch switch-1 down":                                      `test:1: not so: switch "switch-1" down: it is up`,
		"unlink switch-1\nexpect route host-1 4 within 200ms":              `test:2: not so within 200ms: route "host-1" "4": the switches are apart`,
		"expect traffic switch-1[2] within 100ms":                          `test:1: not so within 100ms: traffic "switch-1"[2]: no packet has passed`,
		"expect no traffic host-1[1] within 1s":                            `test:1: not so: no traffic "host-1"[1]: it is so`,
		"unlink switch-1[3]\nrelink switch-1[3]\nexpect active":            `test:3: not so: active: switch-1[3] is Initialize`,
		"unlink switch-1[3]\nrelink switch-1[3]\nwait active within 100ms": `test:3: not so within 100ms: active: switch-1[3] is Initialize`,
	} {
		if _, _, err := script(t, text); err == nil || err.Error() != want {
			t.Errorf("%s:\n%v, want\n%s", text, err, want)
		}
	}
}

func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"jump":                         `there is no command "jump": help shows all`,
		"s switch-1 up":                `"s" may be svg or switch: write one more letter`,
		"\"a\"[1]":                     `there is no command "\"a\"[1]"`,
		"unlink":                       `the name of a node is missing: the command is: unlink NODE[PORT]`,
		"unlink a b":                   `"b" is one argument too many: the command is`,
		"link a[1] b":                  `the port of "b" is missing: write "b"[1]`,
		"link a[1] [2]":                `[2] belongs to no node`,
		"unlink [2]":                   `[2] belongs to no node`,
		"unlink a[0]":                  `"[0]" is not a port`,
		"unlink a[1":                   `"[1" is not a port`,
		"unlink \"a":                   `the last quote is not closed`,
		"unlink \"\"":                  `the name of the node is empty`,
		"switch a":                     `down or up is missing`,
		"switch a sideways":            `"sideways" is not down or up`,
		"error a[1] 2":                 `"2" is not a share`,
		"error a[1] nan":               `"nan" is not a share`,
		"error a 1":                    `the port of "a" is missing`,
		"hold a[1] 15 on":              `"15" is not a virtual lane for data`,
		"hold a[1] 1":                  `on or off is missing`,
		"guid a 0":                     `"0" is not a GUID`,
		"wait":                         `the time is missing`,
		"wait soon":                    `"soon" is not a time`,
		"wait -1":                      `"-1" is not a time`,
		"wait 2h":                      `"2h" is not a time`,
		"expect":                       `link or switch or route or active or traffic is missing`,
		"expect link a[1] fast":        `"fast" is not up or down or active or initialize or armed`,
		"expect traffic a[1] within 0": `traffic needs time to be seen`,
		"svg":                          `the name of the file is missing`,
		"print \x01":                   `there is a control character in the line`,
		// These errors need the fabric.
		"unlink switch-3":              `there is no node "switch-3": do you mean "switch-1"? dump and ramjet fabric show list all`,
		"unlink nothing":               `there is no node "nothing": dump and ramjet fabric show list all`,
		"unlink switch-1[5]":           `"switch-1" has no port 5: it has 4`,
		"unlink switch-1[2]":           `"switch-1"[2] has no cable: there is nothing to pull`,
		"link switch-1[2] switch-1[2]": `both ends are switch-1[2]`,
		"link switch-1[2] switch-2[3]": `switch-2[3] has a cable already, to switch-1[3]: unlink it first`,
		"switch host-1 down":           `"host-1" is not a switch`,
		"guid switch-1[1] 5":           `ports of switches have no GUIDs`,
		"run /does/not/exist":          `open /does/not/exist`,
	} {
		_, _, err := script(t, text)
		if err == nil || !strings.HasPrefix(err.Error(), "test:1: "+want) {
			t.Errorf("%q:\n%v, want\ntest:1: %s", text, err, want)
		}
	}
	// No line of a script runs if one has an error, and all errors are reported.
	f, _, err := script(t, "unlink host-1\njump\n\nwait soon")
	if err == nil || len(f.calls) > 0 || !strings.HasPrefix(err.Error(), "test:2: ") ||
		!strings.Contains(err.Error(), "\ntest:4: ") {
		t.Errorf("%v, calls %q", err, f.calls)
	}
	// Errors of the fabric are passed on.
	f = newFake()
	f.fail = errors.New("refused")
	if err := New(f, new(bytes.Buffer)).Line(t.Context(), "clear"); !errors.Is(err, f.fail) {
		t.Error(err)
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, text := range []string{"wait 1h", "expect link switch-1[2] up within 1h"} {
		if err := New(newFake(), new(bytes.Buffer)).Line(ctx, text); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", text, err)
		}
		if err := New(newFake(), new(bytes.Buffer)).Script(ctx, "test", text); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", text, err)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if err := New(newFake(), new(bytes.Buffer)).Interact(ctx, r); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestInteractScript(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("print one\nprint two\njump\n"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	var b bytes.Buffer
	if err := New(newFake(), &b).Interact(t.Context(), r); err == nil ||
		!strings.HasSuffix(err.Error(), `:3: there is no command "jump": help shows all`) || b.Len() > 0 {
		t.Errorf("%v, %q", err, b.String())
	}
}

func TestComplete(t *testing.T) {
	c := New(newFake(), new(bytes.Buffer))
	for line, want := range map[string]string{
		"unl": "unlink ", "e": "e", "unlink sw": "unlink switch-", "unlink h": "unlink host-1",
		"unlink \"ra": "unlink \"rack#host 2", "unlink ra": "unlink \"rack#host 2", "x": "", "unlink x": "",
	} {
		if got, pos, ok := c.complete(t.Context(), line, len(line)); ok != (want != "") || got != want ||
			ok && pos != len(got) {
			t.Errorf("%q: %q at %d, want %q", line, got, pos, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("")
	f.Add("0")
	for _, s := range []string{"link \"a\"[1] b [2]", "expect no route a b within 5s", "print \"x\"", "error a[1] 1%",
		"!file", "hold a[1] 3 on # x", "guid a[1] 0x5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		verb, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		act, err := parse(line)
		if err != nil || act == nil || strings.HasPrefix(verb, "!") ||
			len(verb) > 0 && strings.HasPrefix("run svg", strings.ToLower(verb[:1])) {
			return
		}
		// Every line that parses runs, and ends.
		act(t.Context(), New(newFake(), new(bytes.Buffer)))
	})
}
