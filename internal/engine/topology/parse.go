// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
)

const (
	maxDepth    = 9    // of included files
	maxIncludes = 1000 // include lines in total
	maxErrors   = 10
)

// Parse reads a topology; errors call the text by name. The error joins up to ten values of type *[Error]. Lines that
// include other files are refused: see [ParseFiles].
func Parse(name string, text []byte) (*Topology, error) { return ParseFor(0, name, text, nil) }

// ParseFiles is Parse for texts that may include others. include returns the text of a file by the name in the line.
func ParseFiles(name string, text []byte, include func(name string) ([]byte, error)) (*Topology, error) {
	return ParseFor(0, name, text, include)
}

// ParseFor is ParseFiles for one of several joined fabrics: GUIDs that the text does not give begin [HostGUIDs] apart
// for each host. If include is nil, lines that include files are refused.
func ParseFor(host int, name string, text []byte, include func(name string) ([]byte, error)) (*Topology, error) {
	if include == nil {
		include = func(string) ([]byte, error) {
			return nil, errors.New("there are no files here: put its text in place of this line")
		}
	}
	first := func(base uint64) *series {
		base += uint64(host) * HostGUIDs
		return &series{base: base, next: base}
	}
	p := &parser{topology: new(Topology), include: include, current: noNode,
		nodes: make(map[string]int), guids: make(map[uint64]int), aliases: make(map[string]int),
		series: map[node.Type]*series{node.CA: first(0x100000), node.Switch: first(0x200000),
			node.Router: first(0x300000)},
		spare: 0x400000 + uint64(host)*HostGUIDs}
	p.text(name, text, 1)
	if len(p.errs) == 0 {
		p.checkAssignments()
		p.connect()
		p.portGUIDs()
	}
	if len(p.errs) == 0 && len(p.topology.Nodes) == 0 {
		p.file, p.line = name, 1
		p.fail(errors.New(`there is no node: a record begins with a line such as: Switch 8 "switch-1"`))
	}
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	return p.topology, nil
}

// HostGUIDs is how many GUIDs each host has for nodes whose text gives none.
const HostGUIDs = 1 << 32

// parser is the state between lines.
type parser struct {
	topology *Topology
	include  func(string) ([]byte, error)
	includes int
	file     string
	line     int
	errs     []error
	spare    uint64 // the next GUID for a port whose default is taken

	prefix    string         // name of the module, with its #
	current   int            // the node whose record is being read, or noNode, badNode
	nodes     map[string]int // by name
	guids     map[uint64]int // nodes by GUID
	places    []place        // of the nodes' lines
	cableEnds []cableEnd     // ends of cables, as they stand in the text
	aliases   map[string]int // plugs that wait to be named by another
	ports     int            // of all nodes, in total
	next      attributes     // of the next node
	pending   []assignment   // lines that say something of a node that has not come yet
	enabled   capabilities   // of the ports that follow
	series    map[node.Type]*series
}

// Values of parser.current that are no node.
const (
	noNode  = -1
	badNode = -2 // the line of the node is an error
)

// place is the position of a line.
type place struct {
	file string
	line int
}

func (p place) String() string { return fmt.Sprintf("%s:%d", p.file, p.line) }

// attributes holds the properties of a node that the lines before its record state.
type attributes struct {
	vendor, device, system uint64
}

// series counts the GUIDs of a type.
type series struct {
	base, next uint64
	port0      uint64 // of the next switch; 0: as the node
}

// capabilities are the widths and speeds that a port supports; 0: any.
type capabilities struct {
	width node.Width
	speed node.Speed // LinkSpeedEnabled of PortInfo
	ext   node.Speed // LinkSpeedExtEnabled

	hasSpeed, hasExt bool
}

// speeds returns the set of speeds; 0: any.
func (c capabilities) speeds() node.Speed {
	switch {
	case c.hasSpeed:
		return c.speed | c.ext
	case c.hasExt:
		return node.SDR | node.DDR | node.QDR | c.ext
	}
	return 0
}

// cableEnd is a port's line: one end of a cable.
type cableEnd struct {
	end        End
	remote     string // a node's name, or an alias
	remotePort int
	remoteGUID uint64 // 0: the line has none
	prefix     string // of the line's module
	alias      bool   // the line declares an alias
	free       bool   // no cable: the line only gives the port's GUID
	width      node.Width
	speed      node.Speed
	at         place
}

func (p *parser) fail(err error) {
	if len(p.errs) < maxErrors {
		p.errs = append(p.errs, &Error{p.file, p.line, err.Error()})
	}
}

// failAt is fail for an earlier line.
func (p *parser) failAt(at place, format string, a ...any) {
	p.file, p.line = at.file, at.line
	p.fail(fmt.Errorf(format, a...))
}

func (p *parser) text(name string, text []byte, depth int) {
	if i := bytes.IndexByte(text, 0); i >= 0 {
		p.file, p.line = name, 1+bytes.Count(text[:i], []byte{'\n'})
		p.fail(errors.New("this is no text, as it has a byte 0: give what ibnetdiscover prints, or a file of ibsim"))
		return
	}
	rest := strings.TrimPrefix(string(text), "\ufeff")
	for line := 1; rest != "" && len(p.errs) < maxErrors; line++ {
		var s string
		s, rest, _ = strings.Cut(rest, "\n")
		p.file, p.line = name, line
		s = strings.Trim(s, " \t\r")
		var err error
		switch {
		case s == "" || s[0] == '#' || strings.HasPrefix(s, "src/"): // warnings of libibnetdisc
		case s[0] == '[' || s[0] == '@':
			err = p.port(s)
		default:
			err = p.statement(s, depth)
		}
		if err != nil {
			p.fail(err)
			p.pending = nil // one mistake, one error
		}
	}
}

// statement parses a line other than a port's.
func (p *parser) statement(s string, depth int) error {
	word := s
	if end := strings.IndexAny(s, " \t=+"); end >= 0 {
		word = s[:end]
	}
	rest := trimmed(s[len(word):])
	switch strings.ToLower(word) {
	case "switch":
		return p.node(node.Switch, rest)
	case "ca", "hca":
		return p.node(node.CA, rest)
	case "rt", "router":
		return p.node(node.Router, rest)
	case "do":
		if rest == "" {
			return errors.New(`the command is missing: write it in the same line, such as: do unlink "host-1"[1]`)
		}
		p.topology.Commands = append(p.topology.Commands, Command{p.file, p.line, rest})
		return nil
	case "include":
		return p.includeFile(rest, depth)
	case "module":
		return p.module(rest)
	// written by ibnetdiscover or read by ibsim, of no use here
	case "chassis", "non-chassis", "ibwarn:", "dr", "pdebug":
		return nil
	}
	if rest == "" || rest[0] != '=' && rest[0] != '+' {
		return fmt.Errorf("%q is not understood: a line begins with Switch, Ca, Rt, a [port], #, or an assignment such as vendid=0x2c9", word)
	}
	return p.assign(strings.ToLower(word), rest)
}

// assign parses a line such as vendid=0x2c9. Text behind the number is a comment.
func (p *parser) assign(name, rest string) error {
	relative := rest[0] == '+'
	rest, _, _ = strings.Cut(trimmed(rest[1:]), "#")
	value, inParentheses, _ := strings.Cut(strings.Trim(rest, " \t"), "(")
	value = strings.Trim(value, " \t")
	set := func(to *uint64, limit uint64) (err error) {
		*to, err = number(value, limit)
		return err
	}
	if t, ok := nodeAssignments[name]; ok {
		if err := p.deferAssignment(name, t); err != nil {
			return err
		}
	}
	var v uint64
	switch name {
	case "vendid":
		return set(&p.next.vendor, 1<<24-1)
	case "devid":
		return set(&p.next.device, 1<<16-1)
	case "sysimgguid":
		return set(&p.next.system, 1<<64-1)
	case "switchguid", "switchguids":
		return p.guid(node.Switch, value, inParentheses, relative)
	case "caguid", "hcaguid", "caguids", "hcaguids":
		return p.guid(node.CA, value, inParentheses, relative)
	case "rtguid", "rtguids":
		return p.guid(node.Router, value, inParentheses, relative)
	case "width":
		err := set(&v, 31)
		p.enabled.width = node.Width(v)
		return err
	case "speed":
		err := set(&v, 7)
		p.enabled.speed, p.enabled.hasSpeed = node.Speed(v), true
		return err
	case "extspeed":
		err := set(&v, 15)
		p.enabled.ext, p.enabled.hasExt = node.Speed(v)<<4, true
		return err
	}
	return fmt.Errorf("%q is not understood: there are vendid, devid, sysimgguid, switchguid, caguid, rtguid, width, speed and extspeed", name+"=")
}

// guid sets the GUID of the next node of a type.
func (p *parser) guid(t node.Type, value, port0 string, relative bool) error {
	v, err := number(value, 1<<64-1)
	if err != nil {
		return err
	}
	s := p.series[t]
	if relative {
		s.next = s.base + v
	} else {
		s.base, s.next = v, v
	}
	s.port0 = 0
	if port0 != "" {
		if s.port0, err = hexGUID(strings.TrimRight(port0, ") \t")); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) module(rest string) error {
	name, _, ok := bracketed(trimmed(strings.TrimPrefix(rest, "=")), '"', '"')
	if !ok {
		return fmt.Errorf(`the module's name is missing: write it between quotes, such as: module "rack1"`)
	}
	if name == "" {
		p.prefix = ""
		return nil
	}
	if err := checkName(name); err != nil {
		return err
	}
	p.prefix = name + "#"
	return nil
}

func (p *parser) includeFile(rest string, depth int) error {
	name, _, ok := bracketed(rest, '"', '"')
	if !ok || name == "" {
		return errors.New(`the file's name is missing: write it between quotes, such as: include "rack1.net"`)
	}
	if p.includes++; depth >= maxDepth || p.includes > maxIncludes {
		return fmt.Errorf("include %q: more than %d files inside each other, or %d at all: does a file include itself?",
			name, maxDepth, maxIncludes)
	}
	text, err := p.include(name)
	if err != nil {
		return fmt.Errorf("include %q: %w", name, err)
	}
	file, line := p.file, p.line
	p.text(name, text, depth+1)
	p.file, p.line, p.current = file, line, noNode
	return nil
}

// node parses a record's first line, from the number of ports on.
func (p *parser) node(t node.Type, rest string) error {
	p.current = badNode
	if err := p.applyAssignments(t); err != nil {
		return err
	}
	count, _, ok := strings.Cut(rest, `"`)
	name, rest, closed := bracketed(rest[min(len(count), len(rest)):], '"', '"')
	if !ok || !closed {
		return errors.New(`the node's name is missing: write how many ports it has and its name between quotes, such as: Switch 8 "switch-1"`)
	}
	ports, err := number(strings.TrimRight(count, " \t"), 1<<32)
	if err != nil || ports < 1 || ports > uint64(MaxPorts) {
		return fmt.Errorf("%q is not how many ports a node has: between 1 and %d are possible",
			strings.TrimRight(count, " \t"), MaxPorts)
	}
	if p.prefix != "" && !strings.Contains(name, "#") {
		name = p.prefix + name
	}
	if err := checkName(name); err != nil {
		return err
	}
	if other, exists := p.nodes[name]; exists {
		return fmt.Errorf("node %q is at %v already: names are unique", name, p.places[other])
	}
	if p.ports += int(ports); len(p.topology.Nodes) == MaxNodes || p.ports > maxAllPorts {
		return fmt.Errorf("there are too many nodes or ports: a subnet has addresses for %d, and we build no more than %d ports", MaxNodes, maxAllPorts)
	}
	n := Node{Type: t, Name: name, VendorID: uint32(p.next.vendor), DeviceID: uint16(p.next.device),
		Ports: make([]Port, ports+1)}
	comment, err := header(&n, rest)
	if err != nil {
		return err
	}
	if n.Description == n.Name {
		n.Description = ""
	}
	if t == node.Switch {
		n.Ports[0].LID, n.Ports[0].LMC = addresses(comment)
	}
	if err := p.identify(&n); err != nil {
		return err
	}
	if n.SystemGUID = p.next.system; n.SystemGUID == 0 {
		n.SystemGUID = n.GUID
	}
	p.next = attributes{}
	p.current = len(p.topology.Nodes)
	p.nodes[name] = p.current
	p.topology.Nodes = append(p.topology.Nodes, n)
	p.places = append(p.places, place{p.file, p.line})
	return nil
}

// header parses the description after a node's name, and returns the rest of the comment.
func header(n *Node, rest string) (comment string, err error) {
	extra, comment, _ := strings.Cut(rest, "#")
	if extra = strings.Trim(extra, " \t"); extra != "" {
		return "", fmt.Errorf("%q is not understood: behind the node's name there may be a # with a comment", extra)
	}
	comment = trimmed(comment)
	if strings.HasPrefix(comment, `"`) {
		if end := strings.LastIndexByte(comment, '"'); end > 0 {
			n.Description = cleanDescription(comment[1:end])
			return comment[end+1:], nil
		}
	}
	end := len(comment)
	for _, mark := range []string{"enhanced port ", "base port ", "lid ", "lmc "} {
		if i := strings.Index(" "+comment, " "+mark); i >= 0 && i < end {
			end = i
		}
	}
	n.Description = strings.Trim(cleanDescription(strings.Trim(comment[:end], " \t")), " ")
	return comment[end:], nil
}

// identify gives a node its GUID, and a switch's port 0 the one of it.
func (p *parser) identify(n *Node) error {
	s := p.series[n.Type]
	guid := s.next
	if named := guidInName(n); named != 0 {
		guid = named
	}
	if guid == 0 {
		return fmt.Errorf("the GUID of %q is 0: give it another one in the line before", n.Name)
	}
	if other, taken := p.guids[guid]; taken {
		return fmt.Errorf("node %q has the GUID %#x, which %q (%v) has already: give it one of its own in a line before, such as %sguid=%#x",
			n.Name, guid, p.topology.Nodes[other].Name, p.places[other],
			map[node.Type]string{node.Switch: "switch", node.CA: "ca", node.Router: "rt"}[n.Type], guid+0x100)
	}
	p.guids[guid] = len(p.topology.Nodes)
	n.GUID = guid
	if n.Type == node.Switch {
		n.Ports[0].GUID = guid
		if s.port0 != 0 {
			n.Ports[0].GUID = s.port0
		}
		s.next = guid + 1
	} else {
		s.next = guid + uint64(len(n.Ports))
	}
	s.port0 = 0
	return nil
}

// guidInName returns the GUID in a name made by ibnetdiscover; 0: there is none.
func guidInName(n *Node) uint64 {
	letters := map[node.Type]string{node.Switch: "S-", node.CA: "H-", node.Router: "R-"}
	digits, ok := strings.CutPrefix(n.Name, letters[n.Type])
	if !ok || len(digits) != 16 {
		return 0
	}
	v, _ := strconv.ParseUint(digits, 16, 64)
	return v
}

// addresses finds a LID and LMC in a comment: "lid 4 lmc 0". It ignores LIDs that are not unicast.
func addresses(comment string) (lid uint16, lmc uint8) {
	words := strings.Fields(comment)
	for i := 0; i+3 < len(words); i++ {
		if words[i] != "lid" || words[i+2] != "lmc" {
			continue
		}
		l, err := strconv.ParseUint(words[i+1], 0, 16)
		m, err2 := strconv.ParseUint(words[i+3], 0, 3)
		if err == nil && err2 == nil && uint16(l) < node.FirstMulticastLID {
			return uint16(l), uint8(m)
		}
	}
	return 0, 0
}
