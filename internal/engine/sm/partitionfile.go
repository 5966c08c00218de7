// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Bounds of a file of partitions.
const (
	maxPartitions      = 1024
	maxPartitionErrors = 10
)

// ParsePartitions reads partitions as OpenSM's partitions.conf has them. A statement ends with a semicolon
// and may have several lines; # begins a comment:
//
//	NAME[=P_KEY][,ipoib][,defmember=full|limited] : MEMBER[=full|limited], ... ;
//
// A member is the GUID of a port, or ALL, ALL_CAS, ALL_SWITCHES, ALL_ROUTERS or SELF, the manager's port.
// Members are limited unless stated otherwise. A partition without a P_Key has the lowest that
// is free. Statements with the same P_Key, or the same name, add to each other. Anything else that is a
// member is a name, which ports resolves to the GUIDs of ports; nil: there are no names.
//
// The flags mtu, rate, scope and sl of groups, and mgroup, are refused: broadcast groups have MTU 2048 and
// 10 Gb/s here. The error joins up to ten values that begin with the file's name and the line.
func ParsePartitions(file, text string, ports func(name string) ([]uint64, error)) ([]Partition, error) {
	p := partitionParser{file: file, ports: ports}
	line, start, statement := 1, 0, ""
	for row := range strings.SplitSeq(text, "\n") {
		row, _, _ = strings.Cut(row, "#")
		for {
			before, after, ends := strings.Cut(row, ";")
			if start == 0 && strings.TrimSpace(before) != "" {
				start = line
			}
			statement += before + " "
			if !ends {
				break
			}
			if start == 0 {
				start = line
			}
			p.statement(start, statement)
			row, statement, start = after, "", 0
		}
		line++
	}
	if start != 0 {
		p.fail(start, "the statement has no end: put a semicolon behind it")
	}
	p.number()
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs[:min(len(p.errs), maxPartitionErrors)]...)
	}
	return p.all, nil
}

type partitionParser struct {
	file  string
	ports func(string) ([]uint64, error)
	all   []Partition // PKey 0: it is to get one
	errs  []error
}

func (p *partitionParser) fail(line int, format string, a ...any) {
	p.errs = append(p.errs, fmt.Errorf("%s:%d: %s", p.file, line, fmt.Sprintf(format, a...)))
}

// statement parses a statement, up to its semicolon.
func (p *partitionParser) statement(line int, text string) {
	parts := strings.Split(text, ":")
	if len(parts) != 2 {
		p.fail(line, "%q: write NAME=P_KEY, FLAGS : MEMBERS;", strings.TrimSpace(text))
		return
	}
	words := strings.Split(parts[0], ",")
	c, err := p.partition(words[0])
	if err != nil {
		p.fail(line, "%v", err)
		return
	}
	usual := LimitedMember
	for _, flag := range words[1:] {
		name, value, _ := strings.Cut(strings.TrimSpace(flag), "=")
		switch name = strings.TrimSpace(name); name {
		case "ipoib":
			c.IPoIB = true
		case "defmember":
			if usual, err = membership(value); err != nil {
				p.fail(line, "defmember: %v", err)
			}
		case "indx0":
			p.fail(line, "indx0 is not supported: row 0 of the tables is the default partition's")
		case "mtu", "rate", "sl", "scope", "mgid", "Q_Key", "TClass", "FlowLabel":
			p.fail(line,
				"%s is not supported: leave it out; broadcast groups have MTU 2048, 10 Gb/s and service level 0", name)
		default:
			p.fail(line, "there is no flag %q: there are ipoib and defmember=full|limited", strings.TrimSpace(flag))
		}
	}
	if strings.TrimSpace(parts[1]) == "" {
		return // OpenSM has such partitions, too
	}
	for member := range strings.SplitSeq(parts[1], ",") {
		if err := p.member(c, usual, member); err != nil {
			p.fail(line, "%v", err)
		}
	}
}

// partition returns the partition that a statement is about, a new one if there is none yet.
func (p *partitionParser) partition(text string) (*Partition, error) {
	name, value, numbered := strings.Cut(text, "=")
	name = strings.TrimSpace(name)
	key := ib.PKey(0)
	if numbered {
		v, err := strconv.ParseUint(strings.TrimSpace(value), 0, 16)
		if key = ib.PKey(v).Base(); err != nil || key == 0 {
			return nil, fmt.Errorf("P_Key %q: give 0x0001 to 0x7fff", strings.TrimSpace(value))
		}
	} else if name == "Default" {
		key, numbered = defaultPartition, true
	}
	if name == "" && !numbered {
		return nil, errors.New("the partition has neither a name nor a P_Key: write NAME=P_KEY : MEMBERS;")
	}
	for i := range p.all {
		c := &p.all[i]
		switch same := name != "" && c.Name == name; {
		case same && key != 0 && c.PKey != 0 && c.PKey != key:
			return nil, fmt.Errorf("partition %q has the P_Key %#04x already, and %#04x here: give both the same, or other names", name, uint16(c.PKey), uint16(key))
		case same, key != 0 && c.PKey == key:
			if c.PKey == 0 {
				c.PKey = key
			}
			return c, nil
		}
	}
	if len(p.all) == maxPartitions {
		return nil, fmt.Errorf("there are more than %d partitions", maxPartitions)
	}
	p.all = append(p.all, Partition{Name: name, PKey: key, Members: make(map[uint64]Membership)})
	return &p.all[len(p.all)-1], nil
}

// member adds a member.
func (p *partitionParser) member(c *Partition, is Membership, text string) (err error) {
	who, value, given := strings.Cut(text, "=")
	who = strings.TrimSpace(who)
	if given {
		if is, err = membership(value); err != nil {
			return fmt.Errorf("%s: %w", who, err)
		}
	}
	groups := map[string]*Membership{"ALL": &c.All, "ALL_CAS": &c.Adapters, "ALL_SWITCHES": &c.Switches,
		"ALL_ROUTERS": &c.Routers, "SELF": &c.Self}
	if g := groups[who]; g != nil {
		*g = max(*g, is)
		return nil
	}
	guids, err := p.guids(who)
	for _, guid := range guids {
		c.Members[guid] = max(c.Members[guid], is)
	}
	return err
}

// guids returns the ports that a member's text means.
func (p *partitionParser) guids(who string) ([]uint64, error) {
	if who == "" {
		return nil, errors.New("a member is missing: write the GUID of a port between commas")
	}
	if guid, err := strconv.ParseUint(who, 0, 64); err == nil {
		if guid == 0 {
			return nil, errors.New("member 0: no port has the GUID 0")
		}
		return []uint64{guid}, nil
	}
	if p.ports == nil {
		return nil, fmt.Errorf("member %q: give the GUID of a port, ALL, ALL_CAS, ALL_SWITCHES, ALL_ROUTERS or SELF",
			who)
	}
	name := who
	if len(who) >= 2 && who[0] == '"' && who[len(who)-1] == '"' {
		name = who[1 : len(who)-1]
	}
	guids, err := p.ports(name)
	if err != nil {
		return nil, fmt.Errorf("member %q: %w: give the GUID of a port, the name of a node, ALL, ALL_CAS, ALL_SWITCHES, ALL_ROUTERS or SELF", who, err)
	}
	return guids, nil
}

// membership reads a word, which may be shortened.
func membership(text string) (Membership, error) {
	word := strings.TrimSpace(text)
	switch {
	case word == "":
	case strings.HasPrefix("full", word):
		return FullMember, nil
	case strings.HasPrefix("limited", word):
		return LimitedMember, nil
	case word == "both":
		return 0, errors.New("both is not supported: say full or limited")
	}
	return 0, fmt.Errorf("%q: say full or limited", word)
}

// number gives the partitions without a P_Key one.
func (p *partitionParser) number() {
	taken := make(map[ib.PKey]bool)
	for i := range p.all {
		taken[p.all[i].PKey] = true
	}
	next := ib.PKey(1)
	for i := range p.all {
		if p.all[i].PKey != 0 {
			continue
		}
		for taken[next] {
			next++
		}
		p.all[i].PKey, taken[next] = next, true
	}
}
