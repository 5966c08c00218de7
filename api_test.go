// SPDX-License-Identifier: Apache-2.0

package ramjet_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var updateAPI = flag.Bool("api.update", false, "TestAPI adds what is new to api/v1.txt")

// stable are the packages whose API docs/stability.md promises to keep.
var stable = []string{"ramjet", "verbs", "verbs/metric", "verbs/umad", "cm", "rnet", "regcache", "roce", "roce1",
	"iwarp", "infiniband", "shm", "kernel", "trace", "rdmatest"}

// TestAPI compares the exported declarations of the stable packages with api/v1.txt, a line for each. A declaration
// that is gone has to be deleted there by hand: a change that breaks programs is then seen in review.
func TestAPI(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the file is of linux/amd64")
	}
	const file = "api/v1.txt"
	now := declarations(t)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	recorded := strings.Split(strings.TrimSpace(string(b)), "\n")
	for _, line := range recorded {
		if !slices.Contains(now, line) {
			t.Errorf("%s is gone: programs break; if that is meant, delete the line from %s", line, file)
		}
	}
	if !slices.IsSorted(recorded) {
		t.Errorf("%s is not sorted", file)
	}
	added := 0
	for _, line := range now {
		if slices.Contains(recorded, line) {
			continue
		}
		if added++; !*updateAPI {
			t.Errorf("%s is new: record it with go test . -run TestAPI -api.update", line)
		}
		recorded = append(recorded, line)
	}
	if *updateAPI && added > 0 {
		slices.Sort(recorded)
		if err := os.WriteFile(file, []byte(strings.Join(recorded, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// declarations returns the exported declarations of the stable packages, sorted.
func declarations(t *testing.T) (lines []string) {
	t.Helper()
	const module = "github.com/ramjet-rdma/ramjet"
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	var paths []string
	for _, name := range stable {
		path := module + "/" + name
		if name == "ramjet" {
			path = module
		}
		paths = append(paths, path)
	}
	cmd := exec.Command("go", append(args, paths...)...)
	var out, errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errors
	if err := cmd.Run(); err != nil {
		t.Fatalf("go list: %v\n%s", err, errors.Bytes())
	}
	files := map[string]string{}
	for line := range strings.Lines(out.String()) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	imports := importer.ForCompiler(token.NewFileSet(), "gc",
		func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
	for _, path := range paths {
		pkg, err := imports.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range pkg.Scope().Names() {
			if o := pkg.Scope().Lookup(name); o.Exported() {
				for _, line := range declaration(o) {
					lines = append(lines, "pkg "+pkg.Name()+", "+line)
				}
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// declaration returns the lines of one name.
func declaration(o types.Object) (lines []string) {
	local := func(p *types.Package) string {
		if p == o.Pkg() {
			return ""
		}
		return p.Name()
	}
	text := func(t types.Type) string { return types.TypeString(t, local) }
	switch o := o.(type) {
	case *types.Const:
		return []string{fmt.Sprintf("const %s %s = %s", o.Name(), text(o.Type()), o.Val().ExactString())}
	case *types.Var:
		return []string{fmt.Sprintf("var %s %s", o.Name(), text(o.Type()))}
	case *types.Func:
		return []string{fmt.Sprintf("func %s%s", o.Name(), strings.TrimPrefix(text(nameless(o)), "func"))}
	}
	name := o.Name()
	what := "type " + name + " "
	if o.(*types.TypeName).IsAlias() {
		what = "type " + name + " = " + text(types.Unalias(o.Type())) + ", "
	}
	switch u := o.Type().Underlying().(type) {
	case *types.Struct:
		lines = append(lines, what+"struct")
		for i := range u.NumFields() {
			if f := u.Field(i); f.Exported() {
				lines = append(lines, fmt.Sprintf("type %s struct, %s %s", name, f.Name(), text(f.Type())))
			}
		}
	default:
		lines = append(lines, what+text(u))
	}
	if types.IsInterface(o.Type()) {
		return lines
	}
	value := types.NewMethodSet(o.Type())
	all := types.NewMethodSet(types.NewPointer(o.Type()))
	for i := range all.Len() {
		m := all.At(i).Obj()
		if !m.Exported() {
			continue
		}
		receiver := "*" + name
		if value.Lookup(m.Pkg(), m.Name()) != nil {
			receiver = name
		}
		lines = append(lines, fmt.Sprintf("method (%s) %s%s", receiver, m.Name(),
			strings.TrimPrefix(text(nameless(m.(*types.Func))), "func")))
	}
	return lines
}

// nameless returns the type of a function without names of parameters, which may change.
func nameless(f *types.Func) types.Type {
	s := f.Signature()
	only := func(t *types.Tuple) *types.Tuple {
		var vars []*types.Var
		for v := range t.Variables() {
			vars = append(vars, types.NewParam(token.NoPos, nil, "", v.Type()))
		}
		return types.NewTuple(vars...)
	}
	if s.TypeParams().Len() > 0 {
		return s
	}
	return types.NewSignatureType(nil, nil, nil, only(s.Params()), only(s.Results()), s.Variadic())
}
