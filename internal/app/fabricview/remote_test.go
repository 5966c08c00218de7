// SPDX-License-Identifier: Apache-2.0

package fabricview

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// A cable to another host's fabric is shown wherever cables are, and is no empty port.
func TestBeyond(t *testing.T) {
	v := running(t, "star:3")
	v.Measured = time.Second
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.Type == Switch {
			n.Ports = append(n.Ports, Port{Number: 4, State: Active, Rate: "4xEDR", Far: "leaf-9[7] at 192.0.2.1:7470",
				Traffic: Traffic{Sent: 2e6}}, Port{Number: 5, State: Down},
				Port{Number: 6, State: Down, Far: "leaf-9[8] at 192.0.2.1:7470"})
		}
	}
	var text, node, picture bytes.Buffer
	for _, err := range []error{v.WriteText(&text), v.WriteNode(&node, "switch-1"), v.WriteSVG(&picture)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"3 links (3 Active), 2 to other hosts (1 Active, 1 Down)\n",
		"\n    [4] Active     4xEDR   ██████ 2.00MB/s leaf-9[7] at 192.0.2.1:7470\n",
		"    [6] Down       -                       leaf-9[8] at 192.0.2.1:7470\n", "  no cable: 5\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("there is no %q in\n%s", want, text.String())
		}
	}
	if want := "\n    [4]     2.00MB/s"; !strings.Contains(node.String(), want) {
		t.Errorf("there is no %q in\n%s", want, node.String())
	}
	for line := range strings.Lines(text.String()) {
		if utf8.RuneCountInString(line) > columns+1 {
			t.Errorf("more than %d columns: %s", columns, line)
		}
	}
	if want := "switch-1[4] – leaf-9[7] at 192.0.2.1:7470 Active, → 2.00 MB/s, ← 0 B/s"; strings.Count(picture.String(),
		want) != 2 {
		t.Errorf("not at the foot of the picture and in the node's title: %q\n%s", want, picture.String())
	}

	for i := range 20 {
		v.Nodes[0].Ports = append(v.Nodes[0].Ports, Port{Number: 10 + i, Far: fmt.Sprint("far", i)})
	}
	if lines := v.index().remoteCables(); len(lines) != maxRemoteCables+1 ||
		lines[maxRemoteCables] != "and 10 more to other hosts" {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
}
