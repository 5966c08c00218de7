// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	programs "github.com/ramjet-rdma/ramjet/checksuite/go"
)

//go:embed c
var sources embed.FS

// The languages of programs, and the two forms of each.
const (
	langC  = "c"
	langGo = "go"

	wrong = "wrong"
	right = "right"
)

// program is one mistake, with its correct twin.
type program struct {
	lang  string
	rule  string
	shape string
}

// name is the text that -run matches.
func (p program) name() string { return p.lang + "/" + p.base() }

func (p program) base() string { return p.rule + "-" + p.shape }

// list returns all programs, in the order of their rules.
func list() ([]program, error) {
	files, err := sources.ReadDir("c")
	if err != nil {
		return nil, err
	}
	var all []program
	for _, f := range files {
		base, isC := strings.CutSuffix(f.Name(), ".c")
		if !isC || base == "suite" {
			continue
		}
		rule := ""
		for _, r := range rules {
			if strings.HasPrefix(base, r+"-") && len(r) > len(rule) {
				rule = r
			}
		}
		if rule == "" {
			return nil, fmt.Errorf("%s is named for no rule", path.Join("c", f.Name()))
		}
		all = append(all, program{langC, rule, base[len(rule)+1:]})
	}
	for _, p := range programs.All {
		if !slices.Contains(rules, p.Rule) {
			return nil, fmt.Errorf("go/%s-%s is named for no rule", p.Rule, p.Shape)
		}
		all = append(all, program{langGo, p.Rule, p.Shape})
	}
	slices.SortStableFunc(all,
		func(a, b program) int { return slices.Index(rules, a.rule) - slices.Index(rules, b.rule) })
	return all, nil
}
