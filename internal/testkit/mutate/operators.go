// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mutant is one change of a source file: the bytes from start to end become text.
type mutant struct {
	file       string // below the module's root, with slashes
	line       int
	function   string
	operator   string
	before     string // the line that changes; the first one of a statement that is dropped
	after      string
	number     int // among mutants that read the same, from 1
	start, end int
	text       string
	body       body // it is in; zero: in none
}

// body is that of a function.
type body struct {
	start, end int // of the text within its braces
	results    bool
	labels     []int // ends of their names
}

// id names a mutant in a way that lines added elsewhere do not change.
func (m *mutant) id() string {
	id := fmt.Sprintf("%s %s: %s: %s => %s", m.file, m.function, m.operator, m.before, m.after)
	if m.number > 1 {
		id += fmt.Sprintf(" #%d", m.number)
	}
	return id
}

// pkg is the folder of the mutant's package.
func (m *mutant) pkg() string { return path.Dir(m.file) }

// apply returns the changed file.
func (m *mutant) apply(source []byte) []byte {
	return slices.Concat(source[:m.start], []byte(m.text), source[m.end:])
}

// dropped stands for a statement that is left out.
const dropped = "(dropped)"

// swaps has the replacement of each operator.
var swaps = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR, token.EQL: token.NEQ,
	token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.REM: token.MUL,
	token.SHL: token.SHR, token.SHR: token.SHL, token.AND: token.OR, token.OR: token.AND, token.AND_NOT: token.AND,
	token.XOR: token.AND, token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN,
	token.OR_ASSIGN:      token.AND_ASSIGN,
	token.AND_ASSIGN:     token.OR_ASSIGN,
	token.AND_NOT_ASSIGN: token.OR_ASSIGN, token.MUL_ASSIGN: token.QUO_ASSIGN, token.QUO_ASSIGN: token.MUL_ASSIGN,
	token.SHL_ASSIGN: token.SHR_ASSIGN, token.SHR_ASSIGN: token.SHL_ASSIGN, token.INC: token.DEC, token.DEC: token.INC,
}

// operatorName names the groups of swaps.
func operatorName(t token.Token) string {
	switch t {
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		return "boundary"
	case token.EQL, token.NEQ:
		return "comparison"
	case token.LAND, token.LOR:
		return "logic"
	}
	return "arithmetic"
}

// forPeople are functions that make text for people, which no protocol depends on.
var forPeople = map[string]bool{"String": true, "GoString": true, "Error": true}

// finder collects the mutants of a file.
type finder struct {
	file     string
	source   []byte
	set      *token.FileSet
	function string
	body     body
	list     []*mutant
}

// mutantsOf returns all mutants of the packages in some folders below root, in the order that seed draws
// them in. Changes of the sources leave the order of the other mutants alone.
func mutantsOf(root string, folders []string, seed uint64) ([]*mutant, error) {
	var all []*mutant
	for _, folder := range folders {
		pkg, err := build.ImportDir(filepath.Join(root, filepath.FromSlash(folder)), 0)
		if err != nil {
			return nil, err
		}
		for _, name := range pkg.GoFiles {
			source, err := os.ReadFile(filepath.Join(pkg.Dir, name))
			if err != nil {
				return nil, err
			}
			list, err := mutantsIn(path.Join(folder, name), source)
			if err != nil {
				return nil, err
			}
			all = append(all, list...)
		}
	}
	rank := make(map[*mutant][sha256.Size]byte)
	for _, m := range all {
		rank[m] = sha256.Sum256(fmt.Appendf(nil, "%d %s", seed, m.id()))
	}
	slices.SortFunc(all, func(a, b *mutant) int {
		x, y := rank[a], rank[b]
		return cmp.Or(bytes.Compare(x[:], y[:]), cmp.Compare(a.id(), b.id()))
	})
	return all, nil
}

// mutantsIn returns the mutants of one file.
func mutantsIn(file string, source []byte) ([]*mutant, error) {
	f := &finder{file: file, source: source, set: token.NewFileSet()}
	tree, err := parser.ParseFile(f.set, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range tree.Decls {
		f.function, f.body = "-", body{}
		switch d := d.(type) {
		case *ast.FuncDecl:
			if forPeople[d.Name.Name] || d.Body == nil {
				continue
			}
			f.function = d.Name.Name
			if d.Recv != nil {
				f.function = strings.TrimPrefix(f.textOf(d.Recv.List[0].Type), "*") + "." + d.Name.Name
			}
			f.body = body{start: f.offset(d.Body.Lbrace) + 1, end: f.offset(d.Body.Rbrace),
				results: d.Type.Results != nil, labels: f.labelsOf(d.Body)}
			ast.Inspect(d.Body, f.visit)
		case *ast.GenDecl:
			if d.Tok == token.CONST || d.Tok == token.VAR {
				ast.Inspect(d, f.visit)
			}
		}
	}
	seen := make(map[string]int)
	for _, m := range f.list {
		seen[m.id()]++
		m.number = seen[m.id()]
	}
	return f.list, nil
}

func (f *finder) offset(p token.Pos) int { return f.set.Position(p).Offset }

func (f *finder) textOf(n ast.Node) string {
	return string(f.source[f.offset(n.Pos()):f.offset(n.End())])
}

// change adds the mutant in which some bytes read otherwise.
func (f *finder) change(operator string, from, to token.Pos, text string) {
	m := &mutant{file: f.file, line: f.set.Position(from).Line, function: f.function, operator: operator, number: 1,
		start: f.offset(from), end: f.offset(to), text: text, body: f.body}
	begin := bytes.LastIndexByte(f.source[:m.start], '\n') + 1
	rest := func(b []byte, i int) string {
		if n := bytes.IndexByte(b[i:], '\n'); n >= 0 {
			return string(b[begin : i+n])
		}
		return string(b[begin:])
	}
	m.before, m.after = strings.TrimSpace(rest(f.source, m.start)), dropped
	if operator != "dropped" {
		m.after = strings.TrimSpace(rest(m.apply(f.source), m.start+len(text)))
		m.before = strings.TrimSpace(rest(f.source, m.end))
	}
	f.list = append(f.list, m)
}

// labelsOf returns the ends of all names of labels.
func (f *finder) labelsOf(n ast.Node) (ends []int) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.LabeledStmt:
			ends = append(ends, f.offset(n.Label.End()))
		case *ast.BranchStmt:
			if n.Label != nil {
				ends = append(ends, f.offset(n.Label.End()))
			}
		}
		return true
	})
	slices.Sort(ends)
	return ends
}

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		f.swap(n.OpPos, n.Op)
	case *ast.IncDecStmt:
		f.swap(n.TokPos, n.Tok)
	case *ast.AssignStmt:
		f.swap(n.TokPos, n.Tok)
	case *ast.BasicLit:
		f.literal(n)
	case *ast.Ident:
		if n.Name == "true" || n.Name == "false" {
			f.change("constant", n.Pos(), n.End(), strconv.FormatBool(n.Name == "false"))
		}
	case *ast.IfStmt:
		f.negate(n.Cond)
	case *ast.ForStmt:
		if n.Cond != nil {
			f.negate(n.Cond)
		}
	case *ast.BlockStmt:
		f.drop(n.List)
	case *ast.CaseClause:
		f.drop(n.Body)
	}
	return true
}

func (f *finder) swap(at token.Pos, op token.Token) {
	if to, ok := swaps[op]; ok {
		f.change(operatorName(op), at, at+token.Pos(len(op.String())), to.String())
	}
}

// literal changes a whole number by one.
func (f *finder) literal(n *ast.BasicLit) {
	if n.Kind != token.INT {
		return
	}
	v, err := strconv.ParseUint(n.Value, 0, 63)
	if err != nil {
		return
	}
	f.change("constant", n.Pos(), n.End(), strconv.FormatUint(v+1, 10))
	if v > 0 {
		f.change("constant", n.Pos(), n.End(), strconv.FormatUint(v-1, 10))
	}
}

func (f *finder) negate(cond ast.Expr) {
	f.change("negation", cond.Pos(), cond.End(), "!("+f.textOf(cond)+")")
}

// drop leaves out each statement of a list on which the others do not depend: calls, assignments, and
// statements that leave a function, a loop or a case without a value.
func (f *finder) drop(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.BranchStmt:
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.ReturnStmt:
			if len(s.Results) > 0 {
				continue
			}
		default:
			continue
		}
		f.change("dropped", s.Pos(), s.End(), "")
	}
}
