// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
)

// port is a port's line:
//
//	[1](GUID) "node"[2](GUID) w=2 # comment
func (p *parser) port(s string) error {
	if p.current < 0 && len(p.pending) > 0 {
		s := p.pending[0]
		return fmt.Errorf("%s= at %v is about the next node, so this port belongs to none: such lines stand before the line of their node", s.name, s.at)
	}
	switch p.current {
	case badNode:
		return nil // one mistake is one error
	case noNode:
		return errors.New(`this port belongs to no node: a record begins with a line such as: Switch 8 "switch-1"`)
	}
	n := &p.topology.Nodes[p.current]
	c := cableEnd{at: place{p.file, p.line}, prefix: p.prefix}
	c.alias = s[0] == '@'
	text, comment, _ := strings.Cut(outsideQuotes(strings.TrimPrefix(s, "@")), "\x00")
	num, rest, ok := bracketed(text, '[', ']')
	if !ok {
		return errors.New(`the port's number is missing: write it between brackets, such as: [1] "host-1"[1]`)
	}
	v, err := portNumber(num, n)
	if err != nil {
		return err
	}
	c.end = End{p.current, v}
	guid, rest, err := suffix(rest)
	if err != nil {
		return err
	}
	if n.Type == node.Switch {
		guid = 0 // ibdiagnet has the number again here
	}
	if guid != 0 {
		n.Ports[v].GUID = guid
	}
	if n.Type != node.Switch {
		n.Ports[v].LID, n.Ports[v].LMC = addresses(unquoted(comment))
	}
	if rest == "" && guid != 0 && !c.alias {
		c.free = true // no cable: only the port's GUID
		p.cableEnds = append(p.cableEnds, c)
		return nil
	}
	if rest, err = p.remote(&c, rest); err != nil {
		return err
	}
	if err := c.capabilities(p.enabled, rest, comment); err != nil {
		return err
	}
	if c.alias {
		return p.alias(c)
	}
	p.cableEnds = append(p.cableEnds, c)
	return nil
}

// portNumber reads the number of a port of a node.
func portNumber(s string, n *Node) (int, error) {
	v, err := number(strings.Trim(s, " \t"), 1<<32)
	if err != nil {
		return 0, fmt.Errorf("the port's number: %w", err)
	}
	if v < 1 || v > uint64(n.NumPorts()) {
		return 0, fmt.Errorf("there is no port %d at %q: it has ports 1 to %d", v, n.Name, n.NumPorts())
	}
	return int(v), nil
}

// remote reads the other end of a cable, or an alias.
func (p *parser) remote(c *cableEnd, s string) (rest string, err error) {
	name, rest, ok := bracketed(s, '"', '"')
	if !ok || name == "" {
		return "", fmt.Errorf(`the other end of port %d is missing: write the node's name between quotes and its port, such as: [%[1]d] "host-1"[1]`, c.end.Port)
	}
	c.remote, c.remotePort = name, 1
	num, after, ok := bracketed(rest, '[', ']')
	if !ok && strings.HasPrefix(rest, "[") {
		return "", fmt.Errorf("the bracket behind %q is not closed: write the other end's port, such as %[1]q[1]", name)
	}
	if ok {
		v, err := number(strings.Trim(num, " \t"), 1<<32)
		if err != nil || v < 1 || v > uint64(MaxPorts) {
			return "", fmt.Errorf("%q is not a port of %q: ports have numbers from 1 to %d", num, name, MaxPorts)
		}
		c.remotePort, rest = int(v), after
	}
	c.remoteGUID, rest, err = suffix(rest)
	return rest, err
}

// suffix takes the optional parts behind a port's number: "[ext 5]" of a chassis, which is ignored, and a GUID.
func suffix(s string) (guid uint64, rest string, err error) {
	s = trimmed(s)
	if _, after, ok := bracketed(s, '[', ']'); ok && strings.HasPrefix(s, "[ext") {
		s = trimmed(after)
	}
	if in, after, ok := bracketed(s, '(', ')'); ok {
		guid, err = hexGUID(strings.Trim(in, " \t"))
		s = trimmed(after)
	}
	return guid, s, err
}

// alias keeps a port that another one may name by its alias.
func (p *parser) alias(c cableEnd) error {
	if err := checkName(c.remote); err != nil {
		return err
	}
	name := strings.TrimSuffix(p.prefix, "#") + "@" + c.remote
	if other, exists := p.aliases[name]; exists {
		return fmt.Errorf("the alias %q is at %v already: aliases are unique", name, p.cableEnds[other].at)
	}
	p.aliases[name] = len(p.cableEnds)
	p.cableEnds = append(p.cableEnds, c)
	return nil
}

// capabilities reads the width and speed in the line: options before the comment, and the rate at
// the comment's end, which counts more.
func (c *cableEnd) capabilities(enabled capabilities, options, comment string) error {
	var hasSpeed, hasExt bool
	for _, o := range strings.Fields(options) {
		name, value, ok := strings.Cut(o, "=")
		if !ok {
			return fmt.Errorf(
				"%q is not understood: behind the other end there may be w=, s=, e= and a # with a comment", o)
		}
		limits := map[string]uint64{"w": 31, "s": 7, "e": 15, "v": 255}
		limit, known := limits[name]
		if !known {
			return fmt.Errorf("%s= is not understood: there are w (widths), s (speeds) and e (extended speeds)", name)
		}
		v, err := number(value, limit)
		if err != nil {
			return err
		}
		switch name {
		case "w":
			enabled.width = node.Width(v)
		case "s":
			enabled.speed, hasSpeed = node.Speed(v), true
		case "e":
			enabled.ext, hasExt = node.Speed(v)<<4, true
		}
	}
	if hasSpeed && enabled.speed == 0 {
		enabled.speed = node.QDR // as ibsim
	}
	enabled.hasSpeed, enabled.hasExt = enabled.hasSpeed || hasSpeed, enabled.hasExt || hasExt
	c.width, c.speed = enabled.width, enabled.speeds()
	for _, word := range strings.Fields(unquoted(comment)) {
		if w, s, ok := rate(word); ok {
			if w != 0 {
				c.width = upToWidth(w)
			}
			if s != 0 {
				c.speed = upToSpeed(s)
			}
		}
	}
	return nil
}

// outsideQuotes turns the # that begins a comment into a NUL: one inside a name does not.
func outsideQuotes(s string) string {
	in := false
	for i := range len(s) {
		switch {
		case s[i] == '"':
			in = !in
		case s[i] == '#' && !in:
			return s[:i] + "\x00" + s[i+1:]
		}
	}
	return s
}

// unquoted takes the description out of a comment: the text between its first and last quote.
func unquoted(comment string) string {
	from, to := strings.IndexByte(comment, '"'), strings.LastIndexByte(comment, '"')
	if from < 0 || to == from {
		return comment
	}
	return comment[:from] + comment[to+1:]
}
